extern volatile int sink;
#if SWAP
void hot_path(void) { sink = 1; }
void cold_path(void) { sink = 1; sink = 2; sink = 3; }
#else
void hot_path(void) { sink = 1; sink = 2; sink = 3; }
void cold_path(void) { sink = 1; }
#endif
