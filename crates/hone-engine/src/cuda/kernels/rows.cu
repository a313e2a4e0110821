// Operations on rows: norms, rotation, tables, updates.

// ---- norms

__device__ __forceinline__ float inverse_root(const float *x, int cols, float eps, float *room) {
    float sum = 0.0f;
    for (int i = threadIdx.x; i < cols; i += blockDim.x) sum = fmaf(x[i], x[i], sum);
    return rsqrtf(block_sum(sum, room) / (float)cols + eps);
}

extern "C" __global__ void norm_rows(const float *x, const float *gain, float eps, int cols, float *out) {
    __shared__ float room[32];
    x += (i64)blockIdx.x * cols;
    float inverse = inverse_root(x, cols, eps, room);
    for (int i = threadIdx.x; i < cols; i += blockDim.x) out[(i64)blockIdx.x * cols + i] = x[i] * inverse * gain[i];
}

// A row by as many threads as `lanes` says: a warp, or the whole block. The order of its sum depends on that alone.
struct Lanes {
    int row, lane, n;
};

__device__ __forceinline__ Lanes lanes_of(int lanes) {
    int per_block = blockDim.x / lanes;
    return {(int)(blockIdx.x * per_block + threadIdx.x / lanes), (int)(threadIdx.x % lanes), lanes};
}

__device__ __forceinline__ float lanes_sum(float x, int lanes, float *room) { return lanes == 32 ? warp_sum(x) : block_sum(x, room); }

__device__ __forceinline__ float lanes_inverse(const float *x, int cols, float eps, Lanes at, float *room) {
    float sum = 0.0f;
    if (cols % 4 == 0)
        for (int i = at.lane; i < cols / 4; i += at.n) sum = dot4(((const float4 *)x)[i], ((const float4 *)x)[i], sum);
    else
        for (int i = at.lane; i < cols; i += at.n) sum = fmaf(x[i], x[i], sum);
    return rsqrtf(lanes_sum(sum, at.n, room) / (float)cols + eps);
}

extern "C" __global__ void norm_act(const float *x, const float *gain, float eps, int rows, int cols, u16 *out, int stride, int lanes) {
    __shared__ float room[32];
    let_next_start();
    Lanes at = lanes_of(lanes);
    if (at.row >= rows) return;
    x += (i64)at.row * cols;
    out += (i64)at.row * stride;
    if (cols % 4 == 0 && cols <= 4 * HELD * lanes) {
        // Everything is asked for before the first answer is needed.
        float4 v[HELD], g[HELD];
        float sum = 0.0f;
#pragma unroll
        for (int j = 0; j < HELD; j++) {
            int i = at.lane + j * at.n;
            g[j] = i < cols / 4 ? ((const float4 *)gain)[i] : make_float4(0, 0, 0, 0);
        }
        await_previous();
#pragma unroll
        for (int j = 0; j < HELD; j++) {
            int i = at.lane + j * at.n;
            v[j] = i < cols / 4 ? ((const float4 *)x)[i] : make_float4(0, 0, 0, 0);
        }
#pragma unroll
        for (int j = 0; j < HELD; j++) sum = dot4(v[j], v[j], sum);
        float inverse = rsqrtf(lanes_sum(sum, at.n, room) / (float)cols + eps);
#pragma unroll
        for (int j = 0; j < HELD; j++) {
            int i = at.lane + j * at.n;
            if (i >= cols / 4) continue;
            float4 w = make_float4(v[j].x * inverse * g[j].x, v[j].y * inverse * g[j].y, v[j].z * inverse * g[j].z, v[j].w * inverse * g[j].w);
            *(uint2 *)(out + 4 * i) = make_uint2(pack(w.x, w.y), pack(w.z, w.w));
        }
        for (int i = cols + at.lane; i < stride; i += at.n) out[i] = 0;
        return;
    }
    await_previous();
    float inverse = lanes_inverse(x, cols, eps, at, room);
    for (int i = at.lane; i < stride; i += at.n) out[i] = i < cols ? to_bf16(x[i] * inverse * gain[i]) : (u16)0;
}

// With n = x·inverse and g = dy·gain: dx = inverse·(g - n·mean(g·n)). The inverse is kept for the gain's gradient.
extern "C" __global__ void norm_backward(const float *x, const float *gain, float eps, int rows, int cols, const float *dy, int add,
                                         float *dx, float *inverses, int lanes) {
    __shared__ float room[32];
    Lanes at = lanes_of(lanes);
    if (at.row >= rows) return;
    i64 from = (i64)at.row * cols;
    x += from, dy += from, dx += from;
    float inverse = lanes_inverse(x, cols, eps, at, room), dot = 0.0f;
    bool fours = cols % 4 == 0;
    if (fours) {
        for (int i = at.lane; i < cols / 4; i += at.n) {
            float4 d = ((const float4 *)dy)[i], g = ((const float4 *)gain)[i], v = ((const float4 *)x)[i];
            dot = dot4(make_float4(d.x * g.x, d.y * g.y, d.z * g.z, d.w * g.w), v, dot);
        }
    } else {
        for (int i = at.lane; i < cols; i += at.n) dot = fmaf(dy[i] * gain[i], x[i], dot);
    }
    float mean = lanes_sum(dot, at.n, room) * inverse / (float)cols, slope = inverse * mean;
    if (fours) {
        for (int i = at.lane; i < cols / 4; i += at.n) {
            float4 d = ((const float4 *)dy)[i], g = ((const float4 *)gain)[i], v = ((const float4 *)x)[i];
            float4 old = add ? ((float4 *)dx)[i] : make_float4(0, 0, 0, 0);
            old.x += inverse * (d.x * g.x - v.x * slope), old.y += inverse * (d.y * g.y - v.y * slope);
            old.z += inverse * (d.z * g.z - v.z * slope), old.w += inverse * (d.w * g.w - v.w * slope);
            ((float4 *)dx)[i] = old;
        }
    } else {
        for (int i = at.lane; i < cols; i += at.n) {
            float d = inverse * (dy[i] * gain[i] - x[i] * slope);
            dx[i] = add ? dx[i] + d : d;
        }
    }
    if (at.lane == 0) inverses[at.row] = inverse;
}

// Column sums of dy·x·inverse (or of dy alone) over a stretch of rows; stretches are summed by `sum_parts`.
extern "C" __global__ void column_sums(const float *dy, const float *x, const float *inverses, int rows, int cols, int stretch,
                                       float *parts) {
    int col = blockIdx.x * blockDim.x + threadIdx.x;
    if (col >= cols) return;
    int first = blockIdx.y * stretch, last = min(rows, first + stretch);
    float sum = 0.0f;
    for (int row = first; row < last; row++) {
        float d = dy[(i64)row * cols + col];
        sum += x ? d * x[(i64)row * cols + col] * inverses[row] : d;
    }
    parts[(i64)blockIdx.y * cols + col] = sum;
}

// to[i] += Σ parts[part][i], parts in order.
extern "C" __global__ void sum_parts(const float *parts, int n_parts, i64 len, float *to) {
    i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= len) return;
    float sum = 0.0f;
#pragma unroll 16
    for (int part = 0; part < n_parts; part++) sum += parts[part * len + i];
    to[i] += sum;
}

// ---- forms

extern "C" __global__ void act(const float *x, float scale, i64 rows, int cols, u16 *out, int stride) {
    i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    if (cols % 8 == 0) {
        if (8 * i >= rows * cols) return;
        const float4 *from = (const float4 *)x + 2 * i;
        float4 a = from[0], b = from[1];
        uint4 packed = {pack(a.x * scale, a.y * scale), pack(a.z * scale, a.w * scale), pack(b.x * scale, b.y * scale),
                        pack(b.z * scale, b.w * scale)};
        if (cols != stride) {
            u32 eights = cols / 8, row = (u32)i / eights;
            out += (i64)row * stride, i -= (i64)row * eights;
        }
        ((uint4 *)out)[i] = packed;
        return;
    }
    i64 n = rows * stride;
    for (i64 at = 8 * i; at < min(n, 8 * i + 8); at++) {
        i64 row = at / stride;
        int col = (int)(at % stride);
        out[at] = col < cols ? to_bf16(x[row * cols + col] * scale) : (u16)0;
    }
}

extern "C" __global__ void add(const float *from, float *to, i64 len) {
    i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < len) to[i] += from[i];
}

// The same of rows of so many columns, `stride` from row to row of the sums.
extern "C" __global__ void add_rows(const float *from, u32 cols, u32 len, float *to, i64 stride) {
    u32 i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < len) to[i / cols * stride + i % cols] += from[i];
}

extern "C" __global__ void gather(const float *x, int cols, const u32 *rows, float *out) {
    const float *from = x + (i64)rows[blockIdx.x] * cols;
    for (int i = threadIdx.x; i < cols; i += blockDim.x) out[(i64)blockIdx.x * cols + i] = from[i];
}

// One block per row of dx that gets something: the sources of row `targets[b]` are `sources[starts[b]..starts[b + 1]]`.
extern "C" __global__ void scatter_add(const float *dy, int cols, const u32 *targets, const u32 *starts, const u32 *sources, float *dx) {
    float *to = dx + (i64)targets[blockIdx.x] * cols;
    u32 first = starts[blockIdx.x], last = starts[blockIdx.x + 1];
    for (int i = threadIdx.x; i < cols; i += blockDim.x) {
        float sum = to[i];
        for (u32 s = first; s < last; s++) sum += dy[(i64)sources[s] * cols + i];
        to[i] = sum;
    }
}

// A token's row of the table, by a block.
__device__ __forceinline__ void embed_row(const u16 *table, int stride, int cols, u32 id, float *out) {
    table += (i64)id * stride;
    if (cols % 4 || stride % 4) {
        for (int i = threadIdx.x; i < cols; i += blockDim.x) out[i] = of_bf16(table[i]);
        return;
    }
    for (int i = threadIdx.x; i < cols / 4; i += blockDim.x) {
        ushort4 four = ((const ushort4 *)table)[i];
        ((float4 *)out)[i] = make_float4(of_bf16(four.x), of_bf16(four.y), of_bf16(four.z), of_bf16(four.w));
    }
}

extern "C" __global__ void embed(const u16 *table, int stride, int cols, const u32 *ids, float *out) {
    embed_row(table, stride, cols, ids[blockIdx.x], out + (i64)blockIdx.x * cols);
}

extern "C" __global__ void bias(float *y, const float *values, int cols, i64 len) {
    i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    if (cols % 4 == 0) {
        if (4 * i >= len) return;
        float4 *at = (float4 *)y + i, sum = *at, added = ((const float4 *)values)[(u32)i % (u32)(cols / 4)];
        *at = make_float4(sum.x + added.x, sum.y + added.y, sum.z + added.z, sum.w + added.w);
        return;
    }
    if (i < len) y[i] += values[i % cols];
}

// A product for shapes that the tensor cores' library does not take: one thread per result.
extern "C" __global__ void product(const u16 *a, int a_row, int a_step, const u16 *b, int b_row, int b_step, int n, int k, int add,
                                   float *out, int out_stride, int rows) {
    int col = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y;
    if (col >= n || row >= rows) return;
    float sum = 0.0f;
    for (int i = 0; i < k; i++) {
        float left = of_bf16(a[(i64)row * a_row + (i64)i * a_step]), right = of_bf16(b[(i64)col * b_row + (i64)i * b_step]);
        sum = fmaf(left, right, sum);
    }
    float *to = out + (i64)row * out_stride + col;
    *to = add ? *to + sum : sum;
}

// ---- rotation and pages

// One thread for four pairs of a head, or for one where they do not come in fours.
extern "C" __global__ void rope(float *x, int n_heads, int head_dim, const float *angles, const u32 *positions, float sign, i64 n_pairs) {
    i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    if (head_dim % 8 == 0) {
        if (4 * i >= n_pairs) return;
        u32 fours = head_dim / 8, head = (u32)i / fours, four = (u32)i % fours;
        const float4 *angle = (const float4 *)(angles + (i64)positions[head / n_heads] * head_dim) + four;
        float4 *first = (float4 *)(x + (i64)head * head_dim) + four, *second = first + fours;
        float4 a = *first, b = *second, c = angle[0], s = angle[fours];
        rotate(a.x, b.x, c.x, sign * s.x, &a.x, &b.x), rotate(a.y, b.y, c.y, sign * s.y, &a.y, &b.y);
        rotate(a.z, b.z, c.z, sign * s.z, &a.z, &b.z), rotate(a.w, b.w, c.w, sign * s.w, &a.w, &b.w);
        *first = a, *second = b;
        return;
    }
    if (i >= n_pairs) return;
    int half = head_dim / 2, pair = (int)(i % half);
    i64 head = i / half;
    const float *angle = angles + (i64)positions[head / n_heads] * head_dim;
    float *at = x + head * head_dim + pair;
    rotate(at[0], at[half], angle[pair], sign * angle[half + pair], at, at + half);
}

// places holds (page, offset, row) of every key; `width` is head_dim padded to sixteen.
extern "C" __global__ void kv_write(const float *k, const float *v, const u32 *places, int n_kv_heads, int head_dim, int width,
                                    u16 *keys, u16 *values) {
    const u32 *place = places + 3 * blockIdx.x;
    i64 page = place[0], row = place[2];
    int offset = place[1];
    for (int i = threadIdx.x; i < n_kv_heads * width; i += blockDim.x) {
        int head = i / width, d = i % width;
        i64 to = ((page * n_kv_heads + head) * PAGE + offset) * width + (d ^ turn(offset, width));
        i64 from = (row * n_kv_heads + head) * head_dim + d;
        keys[to] = d < head_dim ? to_bf16(k[from]) : (u16)0;
        values[to] = d < head_dim ? to_bf16(v[from]) : (u16)0;
    }
}

// Rounds heads to bf16, each padded to `width`.
extern "C" __global__ void pad_heads(const float *x, i64 n_heads, int head_dim, int width, u16 *out) {
    i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n_heads * width) return;
    int d = (int)(i % width);
    out[i] = d < head_dim ? to_bf16(x[i / width * head_dim + d]) : (u16)0;
}

// dk[row] = Σ of the gradients of the places that hold the row's key, in order of pages; the grid's second half is of the values.
extern "C" __global__ void kv_gradient(const float *page_dk, const float *page_dv, const u32 *starts, const u32 *slots, int n_rows,
                                       int n_kv_heads, int head_dim, float *dk, float *dv) {
    const float *pages = blockIdx.y ? page_dv : page_dk;
    float *out = blockIdx.y ? dv : dk;
    u32 step = head_dim % 4 == 0 ? 4 : 1, per_head = head_dim / step, per_row = n_kv_heads * per_head;
    u32 i = blockIdx.x * blockDim.x + threadIdx.x, row = i / per_row;
    if (row >= n_rows) return;
    u32 head = i % per_row / per_head, d = i % per_head * step, first = starts[row], last = starts[row + 1];
    float4 sum = make_float4(0, 0, 0, 0);
    for (u32 s = first; s < last; s++) {
        i64 page = slots[s] / PAGE, offset = slots[s] % PAGE;
        const float *from = pages + ((page * n_kv_heads + head) * PAGE + offset) * head_dim + d;
        float4 x = step == 4 ? *(const float4 *)from : make_float4(*from, 0, 0, 0);
        sum.x += x.x, sum.y += x.y, sum.z += x.z, sum.w += x.w;
    }
    float *to = out + ((i64)row * n_kv_heads + head) * head_dim + d;
    if (step == 4)
        *(float4 *)to = sum;
    else
        *to = sum.x;
}

// ---- updates

// A stretch of a vector: where it begins and how long it is.
struct Squared {
    const float *x;
    i64 len;
};

// The sum of squares of each stretch, in f64.
extern "C" __global__ void sum_squares(const Squared *stretches, double *sums) {
    __shared__ double room[256];
    Squared at = stretches[blockIdx.x];
    double sum = 0.0;
    for (i64 i = threadIdx.x; i < at.len; i += 256) sum += (double)at.x[i] * (double)at.x[i];
    room[threadIdx.x] = sum;
    __syncthreads();
    for (int half = 128; half > 0; half >>= 1) {
        if (threadIdx.x < half) room[threadIdx.x] += room[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0) sums[blockIdx.x] = room[0];
}

// A stretch of a weight, its moments and its gradient.
struct Moved {
    float *w, *m, *v, *grad;
    i64 len;
};

// Moves weights, and clears their gradients where that is asked for.
extern "C" __global__ void adamw(const Moved *all, int clear, float lr, float beta1, float beta2, float eps, float decay,
                                 float correction1, float correction2, float grad_scale) {
    Moved at = all[blockIdx.x];
    for (i64 i = threadIdx.x; i < at.len; i += blockDim.x) {
        float g = at.grad[i] * grad_scale;
        float m = beta1 * at.m[i] + (1.0f - beta1) * g, v = beta2 * at.v[i] + (1.0f - beta2) * g * g;
        at.m[i] = m, at.v[i] = v;
        float root = sqrtf(v / correction2) + eps;
        at.w[i] = at.w[i] * (1.0f - lr * decay) - lr * (m / correction1) / root;
        if (clear) at.grad[i] = 0.0f;
    }
}

// ---- comparing algorithms

// Sets the flag when two results differ in a bit.
extern "C" __global__ void differs(const u32 *a, const u32 *b, i64 len, u32 *flag) {
    i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < len && a[i] != b[i]) *flag = 1;
}

// Uniform numbers in -1..1, a function of the place alone.
extern "C" __global__ void noise(u16 *out, i64 len) {
    i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= len) return;
    u32 x = (u32)i * 0x9e3779b9u + (u32)(i >> 32);
    x = (x ^ (x >> 16)) * 0x85ebca6bu;
    x = (x ^ (x >> 13)) * 0xc2b2ae35u;
    x ^= x >> 16;
    out[i] = to_bf16((float)(x >> 8) / 8388608.0f - 1.0f);
}
