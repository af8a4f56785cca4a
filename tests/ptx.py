"""A kernel in PTX, small enough to be read by everybody."""

HEAD = ".version 8.3\n.target sm_90a\n.address_size 64\n"
SMALL = """
.visible .entry small(.param .u64 p) {
    .reg .b64 %rd<3>; .reg .f32 %f<3>;
    ld.param.u64 %rd1, [p]; cvta.to.global.u64 %rd2, %rd1;
    ld.global.f32 %f1, [%rd2]; add.f32 %f2, %f1, 0f3F800000; st.global.f32 [%rd2], %f2;
    ret;
}
"""
