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
// A warp has sixteen rows and PIECE columns of each matrix, a thread two rows and four neighbours of every sixteen columns. What the
// adapter adds to them is a product over its rank, K sixteens, by the tensor core, whose eight columns are dealt so that a thread's are
// neighbours. Blocks go along the rows, as memory does.

#define PIECE 32
#define ADDED 64

// What an adapter adds: narrow activations and weights, with elements from row to row; nothing where they are null.
struct Low {
    const u16 *x, *w;
    int x_stride, w_stride;
};

// The two rows of a thread.
struct Spot {
    i64 rows[2];
    bool live[2];
    int group, quad;
};

__device__ __forceinline__ Spot spot_of(int rows) {
    int lane = threadIdx.x & 31, row0 = (blockIdx.y * (blockDim.x >> 5) + (threadIdx.x >> 5)) * 16;
    Spot at = {{}, {}, lane >> 2, lane & 3};
#pragma unroll
    for (int i = 0; i < 2; i++) {
        int row = row0 + at.group + 8 * i;
        at.live[i] = row < rows;
        at.rows[i] = min(row, rows - 1);
    }
    return at;
}

__device__ __forceinline__ void load_fours(float4 *v, const float *x, int cols, int col, const Spot &at) {
#pragma unroll
    for (int i = 0; i < 2; i++) v[i] = *(const float4 *)(x + at.rows[i] * cols + col);
}

template <int K>
__device__ __forceinline__ void load_narrow(u32 (*a)[4], const Low &low, const Spot &at) {
    if (!low.x) return;
    const u16 *first = low.x + at.rows[0] * low.x_stride + at.quad * 2, *second = low.x + at.rows[1] * low.x_stride + at.quad * 2;
#pragma unroll
    for (int k = 0; k < K; k++) {
        a[k][0] = __ldg((const u32 *)(first + 16 * k)), a[k][1] = __ldg((const u32 *)(second + 16 * k));
        a[k][2] = __ldg((const u32 *)(first + 16 * k + 8)), a[k][3] = __ldg((const u32 *)(second + 16 * k + 8));
    }
}

// TURNED: the weights are `[rank, cols]` and not `[cols, rank]`.
template <int K, bool TURNED>
__device__ __forceinline__ void add_low(float4 *v, const u32 (*a)[4], const Low &low, int col0, const Spot &at) {
    if (!low.x) return;
    float sums[2][4] = {};
#pragma unroll
    for (int k = 0; k < K; k++) {
#pragma unroll
        for (int t = 0; t < 2; t++) {
            int col = col0 + (at.group >> 1) * 4 + 2 * t + (at.group & 1);
            u32 b[2];
            if (TURNED) {
                const u16 *w = low.w + (i64)(16 * k + at.quad * 2) * low.w_stride + col, *further = w + 8 * (i64)low.w_stride;
                b[0] = __ldg(w) | (u32)__ldg(w + low.w_stride) << 16;
                b[1] = __ldg(further) | (u32)__ldg(further + low.w_stride) << 16;
            } else {
                const u16 *w = low.w + (i64)col * low.w_stride + 16 * k + at.quad * 2;
                b[0] = __ldg((const u32 *)w), b[1] = __ldg((const u32 *)(w + 8));
            }
            multiply(sums[t], a[k], b);
        }
    }
    v[0].x += sums[0][0], v[0].y += sums[0][1], v[0].z += sums[1][0], v[0].w += sums[1][1];
    v[1].x += sums[0][2], v[1].y += sums[0][3], v[1].z += sums[1][2], v[1].w += sums[1][3];
}

// Everything is asked for before the first answer is needed; columns behind the last are those of the piece's first.
template <int K>
__device__ __forceinline__ void gates_forward(const float *gate, const float *up, int rows, int cols, Low to_gate, Low to_up, u16 *out) {
    Spot at = spot_of(rows);
    float4 g[PIECE / 16][2], u[PIECE / 16][2];
    u32 gate_a[K][4], up_a[K][4];
    int first = blockIdx.x * PIECE;
#pragma unroll
    for (int j = 0; j < PIECE / 16; j++) {
        int col = (first + 16 * j < cols ? first + 16 * j : first) + at.quad * 4;
        load_fours(g[j], gate, cols, col, at), load_fours(u[j], up, cols, col, at);
    }
    load_narrow<K>(gate_a, to_gate, at), load_narrow<K>(up_a, to_up, at);
#pragma unroll
    for (int j = 0; j < PIECE / 16; j++) {
        int col0 = first + 16 * j;
        if (col0 >= cols) break;
        add_low<K, false>(g[j], gate_a, to_gate, col0, at), add_low<K, false>(u[j], up_a, to_up, col0, at);
#pragma unroll
        for (int i = 0; i < 2; i++) {
            float4 x = g[j][i], y = u[j][i];
            u32 low = pack(gated(x.x, y.x), gated(x.y, y.y)), high = pack(gated(x.z, y.z), gated(x.w, y.w));
            if (at.live[i]) store2(out + at.rows[i] * cols + col0 + at.quad * 4, low, high);
        }
    }
}

template <int K>
__device__ __forceinline__ void gates_backward(const float *gate, const float *up, const float *dh, int rows, int cols, Low to_gate,
                                               Low to_up, Low to_dh, u16 *dgate, u16 *dup, int stride) {
    Spot at = spot_of(rows);
    float4 g[PIECE / 16][2], u[PIECE / 16][2], d[PIECE / 16][2];
    u32 gate_a[K][4], up_a[K][4], dh_a[K][4];
    int first = blockIdx.x * PIECE;
#pragma unroll
    for (int j = 0; j < PIECE / 16; j++) {
        int col = (first + 16 * j < cols ? first + 16 * j : first) + at.quad * 4;
        load_fours(g[j], gate, cols, col, at), load_fours(u[j], up, cols, col, at), load_fours(d[j], dh, cols, col, at);
    }
    load_narrow<K>(gate_a, to_gate, at), load_narrow<K>(up_a, to_up, at), load_narrow<K>(dh_a, to_dh, at);
#pragma unroll
    for (int j = 0; j < PIECE / 16; j++) {
        int col0 = first + 16 * j;
        if (col0 >= cols) break;
        add_low<K, false>(g[j], gate_a, to_gate, col0, at), add_low<K, false>(u[j], up_a, to_up, col0, at);
        add_low<K, true>(d[j], dh_a, to_dh, col0, at);
#pragma unroll
        for (int i = 0; i < 2; i++) {
            float4 x = g[j][i], y = u[j][i], z = d[j][i];
            float dg[4], du[4];
            gated_backward(x.x, y.x, z.x, dg, du), gated_backward(x.y, y.y, z.y, dg + 1, du + 1);
            gated_backward(x.z, y.z, z.z, dg + 2, du + 2), gated_backward(x.w, y.w, z.w, dg + 3, du + 3);
            if (!at.live[i]) continue;
            i64 to = at.rows[i] * stride + col0 + at.quad * 4;
            store2(dgate + to, pack(dg[0], dg[1]), pack(dg[2], dg[3]));
            store2(dup + to, pack(du[0], du[1]), pack(du[2], du[3]));
        }
    }
}

// y += x·wᵀ, or x·w, for x of K sixteens.
template <int K, bool TURNED>
__device__ __forceinline__ void add_narrow(float *y, int rows, int cols, Low low) {
    Spot at = spot_of(rows);
    float4 v[ADDED / 16][2];
    u32 a[K][4];
    int first = blockIdx.x * ADDED;
#pragma unroll
    for (int j = 0; j < ADDED / 16; j++)
        load_fours(v[j], y, cols, (first + 16 * j < cols ? first + 16 * j : first) + at.quad * 4, at);
    load_narrow<K>(a, low, at);
#pragma unroll
    for (int j = 0; j < ADDED / 16; j++) {
        int col0 = first + 16 * j;
        if (col0 >= cols) break;
        add_low<K, TURNED>(v[j], a, low, col0, at);
#pragma unroll
        for (int i = 0; i < 2; i++)
            if (at.live[i]) store4(y + at.rows[i] * cols + col0 + at.quad * 4, v[j][i]);
    }
}

#define FOR_RANK(RANK)                                                                                                                    \
    extern "C" __global__ void __launch_bounds__(128) swiglu_low_##RANK(const float *gate, const float *up, int rows, int cols,           \
                                                                        const u16 *gate_x, const u16 *gate_w, const u16 *up_x,            \
                                                                        const u16 *up_w, u16 *out) {                                      \
        gates_forward<RANK / 16>(gate, up, rows, cols, {gate_x, gate_w, RANK, RANK}, {up_x, up_w, RANK, RANK}, out);                      \
    }                                                                                                                                     \
    extern "C" __global__ void __launch_bounds__(128)                                                                                     \
        swiglu_low_backward_##RANK(const float *gate, const float *up, const float *dh, int rows, int cols, const u16 *gate_x,            \
                                   const u16 *gate_w, const u16 *up_x, const u16 *up_w, const u16 *dh_x, const u16 *dh_w, u16 *dgate,     \
                                   u16 *dup, int stride) {                                                                                \
        gates_backward<RANK / 16>(gate, up, dh, rows, cols, {gate_x, gate_w, RANK, RANK}, {up_x, up_w, RANK, RANK},                       \
                                  {dh_x, dh_w, RANK, cols}, dgate, dup, stride);                                                          \
    }                                                                                                                                     \
    extern "C" __global__ void __launch_bounds__(128) add_narrow_##RANK(const u16 *x, int x_stride, const u16 *w, int w_stride, float *y, \
                                                                        int rows, int cols, int turned) {                                 \
        Low low = {x, w, x_stride, w_stride};                                                                                             \
        if (turned)                                                                                                                       \
            add_narrow<RANK / 16, true>(y, rows, cols, low);                                                                              \
        else                                                                                                                              \
            add_narrow<RANK / 16, false>(y, rows, cols, low);                                                                             \
    }

FOR_RANK(16)
FOR_RANK(32)
FOR_RANK(48)
FOR_RANK(64)
