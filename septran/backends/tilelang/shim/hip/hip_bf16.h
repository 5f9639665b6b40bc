// What TileLang's HIP templates name of a newer HIP's header: storage only.
#pragma once
struct __hip_bfloat16 { unsigned short data; };
struct __hip_bfloat162 { __hip_bfloat16 x, y; };
