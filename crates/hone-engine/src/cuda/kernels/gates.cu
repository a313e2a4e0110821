// Gates, alone or with what an adapter adds to them.

extern "C" __global__ void swiglu(const float *gate, const float *up, i64 rows, int cols, int from_stride, u16 *out, int stride) {
    let_next_start();
    await_previous();
    i64 i = ((i64)blockIdx.x * blockDim.x + threadIdx.x) * 4;
    if (i >= rows * stride) return;
    i64 row = i / stride;
    int col = (int)(i % stride);
    i64 at = row * from_stride + col;
    if (cols % 4 == 0 && from_stride % 4 == 0 && col < cols) {
        float4 g = *(const float4 *)(gate + at), u = *(const float4 *)(up + at);
        *(uint2 *)(out + i) = make_uint2(pack(gated(g.x, u.x), gated(g.y, u.y)), pack(gated(g.z, u.z), gated(g.w, u.w)));
        return;
    }
    for (int j = 0; j < 4; j++) out[i + j] = col + j < cols ? to_bf16(gated(gate[at + j], up[at + j])) : (u16)0;
}

__device__ __forceinline__ void gated_backward(float g, float u, float d, float *dg, float *du) {
    float s = sigmoid(g);
    *dg = d * u * s * (1.0f + g * (1.0f - s));
    *du = d * g * s;
}

// `width` is `cols` padded to eight, `stride` from row to row of the results.
extern "C" __global__ void swiglu_backward(const float *gate, const float *up, const float *dh, int rows, int cols, int width, u16 *dgate,
                                           u16 *dup, int stride) {
    u32 i = blockIdx.x * blockDim.x + threadIdx.x, fours = width / 4, row = i / fours;
    if (row >= rows) return;
    int col = i % fours * 4;
    i64 at = (i64)row * cols + col, to = (i64)row * stride + col;
    float dg[4] = {}, du[4] = {};
    if (cols % 4 == 0 && col < cols) {
        float4 g = *(const float4 *)(gate + at), u = *(const float4 *)(up + at), d = *(const float4 *)(dh + at);
        gated_backward(g.x, u.x, d.x, dg, du), gated_backward(g.y, u.y, d.y, dg + 1, du + 1);
        gated_backward(g.z, u.z, d.z, dg + 2, du + 2), gated_backward(g.w, u.w, d.w, dg + 3, du + 3);
    } else {
        for (int j = 0; j < 4; j++)
            if (col + j < cols) gated_backward(gate[at + j], up[at + j], dh[at + j], dg + j, du + j);
    }
    *(uint2 *)(dgate + to) = make_uint2(pack(dg[0], dg[1]), pack(dg[2], dg[3]));
    *(uint2 *)(dup + to) = make_uint2(pack(du[0], du[1]), pack(du[2], du[3]));
}

// ---- with an adapter
//
// A warp has sixteen rows and LOW_COLS columns of each matrix, a thread two rows and four neighbours of every sixteen columns. What the
// adapter adds to them is a product over its rank by the tensor core, whose eight columns are dealt so that a thread's are neighbours.

#define LOW_COLS 32

struct Low {
    const u16 *x, *w; // nothing is added where they are null
};

struct Spot {
    i64 rows[2];
    bool live[2];
    int group, quad;
};

// TURNED: the weights are `[rank, cols]` and not `[cols, rank]`. RANK is the rank where it is known, or 0.
template <int RANK, bool TURNED>
__device__ __forceinline__ void add_low(float4 *v, Low low, int rank, int cols, int col0, const Spot &at) {
    if (!low.x) return;
    float sums[2][4] = {};
    const u16 *first = low.x + at.rows[0] * rank + at.quad * 2, *second = low.x + at.rows[1] * rank + at.quad * 2;
#pragma unroll
    for (int k = 0; k < (RANK ? RANK : rank); k += 16) {
        u32 a[4] = {*(const u32 *)(first + k), *(const u32 *)(second + k), *(const u32 *)(first + k + 8), *(const u32 *)(second + k + 8)};
#pragma unroll
        for (int t = 0; t < 2; t++) {
            int col = col0 + (at.group >> 1) * 4 + 2 * t + (at.group & 1);
            u32 b[2];
            if (TURNED) {
                const u16 *w = low.w + (i64)(k + at.quad * 2) * cols + col;
                b[0] = w[0] | (u32)w[cols] << 16, b[1] = w[8 * cols] | (u32)w[9 * cols] << 16;
            } else {
                const u16 *w = low.w + (i64)col * rank + k + at.quad * 2;
                b[0] = *(const u32 *)w, b[1] = *(const u32 *)(w + 8);
            }
            multiply(sums[t], a, b);
        }
    }
    v[0].x += sums[0][0], v[0].y += sums[0][1], v[0].z += sums[1][0], v[0].w += sums[1][1];
    v[1].x += sums[0][2], v[1].y += sums[0][3], v[1].z += sums[1][2], v[1].w += sums[1][3];
}

__device__ __forceinline__ Spot spot_of(int rows) {
    int lane = threadIdx.x & 31, row0 = (blockIdx.x * (blockDim.x >> 5) + (threadIdx.x >> 5)) * 16;
    Spot at = {{}, {}, lane >> 2, lane & 3};
#pragma unroll
    for (int i = 0; i < 2; i++) {
        int row = row0 + at.group + 8 * i;
        at.live[i] = row < rows;
        at.rows[i] = min(row, rows - 1);
    }
    return at;
}

__device__ __forceinline__ void load_rows4(float4 *v, const float *x, int cols, int col, const Spot &at) {
#pragma unroll
    for (int i = 0; i < 2; i++) v[i] = *(const float4 *)(x + at.rows[i] * cols + col);
}

template <int RANK>
__device__ __forceinline__ void swiglu_low_piece(const float *gate, const float *up, int cols, Low to_gate, Low to_up, int rank, u16 *out,
                                                 const Spot &at) {
#pragma unroll
    for (int j = 0; j < LOW_COLS; j += 16) {
        int col0 = blockIdx.y * LOW_COLS + j, col = col0 + at.quad * 4;
        if (col0 >= cols) break;
        float4 g[2], u[2];
        load_rows4(g, gate, cols, col, at);
        load_rows4(u, up, cols, col, at);
        add_low<RANK, false>(g, to_gate, rank, cols, col0, at);
        add_low<RANK, false>(u, to_up, rank, cols, col0, at);
#pragma unroll
        for (int i = 0; i < 2; i++) {
            u32 low = pack(gated(g[i].x, u[i].x), gated(g[i].y, u[i].y)), high = pack(gated(g[i].z, u[i].z), gated(g[i].w, u[i].w));
            if (at.live[i]) *(uint2 *)(out + at.rows[i] * cols + col) = make_uint2(low, high);
        }
    }
}

extern "C" __global__ void __launch_bounds__(128) swiglu_low(const float *gate, const float *up, int rows, int cols, const u16 *gate_x,
                                                             const u16 *gate_w, const u16 *up_x, const u16 *up_w, int rank, u16 *out) {
    Spot at = spot_of(rows);
    Low to_gate = {gate_x, gate_w}, to_up = {up_x, up_w};
    if (rank == 16)
        swiglu_low_piece<16>(gate, up, cols, to_gate, to_up, 16, out, at);
    else
        swiglu_low_piece<0>(gate, up, cols, to_gate, to_up, rank, out, at);
}

template <int RANK>
__device__ __forceinline__ void swiglu_low_backward_piece(const float *gate, const float *up, const float *dh, int cols, Low to_gate,
                                                          Low to_up, Low to_dh, int rank, u16 *dgate, u16 *dup, int stride,
                                                          const Spot &at) {
#pragma unroll
    for (int j = 0; j < LOW_COLS; j += 16) {
        int col0 = blockIdx.y * LOW_COLS + j, col = col0 + at.quad * 4;
        if (col0 >= cols) break;
        float4 g[2], u[2], d[2];
        load_rows4(g, gate, cols, col, at);
        load_rows4(u, up, cols, col, at);
        load_rows4(d, dh, cols, col, at);
        add_low<RANK, false>(g, to_gate, rank, cols, col0, at);
        add_low<RANK, false>(u, to_up, rank, cols, col0, at);
        add_low<RANK, true>(d, to_dh, rank, cols, col0, at);
#pragma unroll
        for (int i = 0; i < 2; i++) {
            float dg[4], du[4];
            gated_backward(g[i].x, u[i].x, d[i].x, dg, du), gated_backward(g[i].y, u[i].y, d[i].y, dg + 1, du + 1);
            gated_backward(g[i].z, u[i].z, d[i].z, dg + 2, du + 2), gated_backward(g[i].w, u[i].w, d[i].w, dg + 3, du + 3);
            if (!at.live[i]) continue;
            i64 to = at.rows[i] * stride + col;
            *(uint2 *)(dgate + to) = make_uint2(pack(dg[0], dg[1]), pack(dg[2], dg[3]));
            *(uint2 *)(dup + to) = make_uint2(pack(du[0], du[1]), pack(du[2], du[3]));
        }
    }
}

extern "C" __global__ void __launch_bounds__(128) swiglu_low_backward(const float *gate, const float *up, const float *dh, int rows,
                                                                      int cols, const u16 *gate_x, const u16 *gate_w, const u16 *up_x,
                                                                      const u16 *up_w, const u16 *dh_x, const u16 *dh_w, int rank,
                                                                      u16 *dgate, u16 *dup, int stride) {
    Spot at = spot_of(rows);
    Low to_gate = {gate_x, gate_w}, to_up = {up_x, up_w}, to_dh = {dh_x, dh_w};
    if (rank == 16)
        swiglu_low_backward_piece<16>(gate, up, dh, cols, to_gate, to_up, to_dh, 16, dgate, dup, stride, at);
    else
        swiglu_low_backward_piece<0>(gate, up, dh, cols, to_gate, to_up, to_dh, rank, dgate, dup, stride, at);
}
