// Files that include it without need are judged; what calls it does not compile here.
#pragma once
