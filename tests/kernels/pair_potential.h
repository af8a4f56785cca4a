/* Shared by the kernel and its test, so that a change to the physics shows up as a change of a project header. */
#ifndef PAIR_POTENTIAL_H
#define PAIR_POTENTIAL_H

#define SOFTENING 0.01f /* length squared; keeps the self-interaction finite */

#endif
