/* The chip's figures; a vendor table that names another chip than the BM1684X defines them. */
#ifndef SG_CHIP_H
#define SG_CHIP_H
#ifndef SG_CHIP_LANES
#define SG_CHIP_LANES 64      /* lanes of local memory with their own units */
#define SG_CHIP_LANE 262144   /* bytes of a lane */
#define SG_CHIP_UNITS 64      /* bytes that a lane's units take at once: rows without strides begin at multiples of it */
#endif
#endif
