// All layers of a model of SmolLM2-135M's sizes for one sequence, in one launch: whether it is right, and how long it takes.
//
// `main POSITION…` prints a line for each position: how far the stream is from one computed on the CPU, relative to its length (bf16 rounds
// it some sixty times), and the least mean time of a launch.

#define WIDTH 64
#ifndef DIM
#define DIM 576
#define HEADS 9
#define KV_HEADS 3
#define FFN 1536
#endif
#include "kernels.cu"

#include <cuda.h>
#include <cuda_runtime.h>
#include <dlfcn.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

static const int LAYERS = 30, PAGES = 128, QKV = (HEADS + 2 * KV_HEADS) * WIDTH, LAUNCHES = 20, TIMES = 5;
static const float EPS = 1e-5f, SCALE = 0.125f;

static void check(cudaError_t status) {
    if (status != cudaSuccess) printf("CUDA: %s\n", cudaGetErrorString(status)), exit(2);
}

template <class T>
static T *upload(const std::vector<T> &values) {
    T *there;
    check(cudaMalloc(&there, values.size() * sizeof(T)));
    check(cudaMemcpy(there, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice));
    return there;
}

static u16 rounded(float x) {
    u32 bits;
    memcpy(&bits, &x, 4);
    return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}

static float widened(u16 x) {
    u32 bits = (u32)x << 16;
    float wide;
    memcpy(&wide, &bits, 4);
    return wide;
}

// About normal, always the same.
static float noise() {
    static u32 state = 1;
    float sum = -2.0f;
    for (int i = 0; i < 4; i++) state = state * 1664525u + 1013904223u, sum += (state >> 8) / 16777216.0f;
    return 1.7f * sum;
}

static std::vector<u16> matrix(size_t len, float scale) {
    std::vector<u16> values(len);
    for (auto &x : values) x = rounded(noise() * scale);
    return values;
}

// A matrix for the copy engine: boxes of eight rows and some chunks of 64 columns.
static Map map(u16 *matrix, size_t rows, size_t halves, size_t cols, u32 chunks) {
    static auto encode = (decltype(&cuTensorMapEncodeTiled))dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuTensorMapEncodeTiled");
    cuuint64_t sizes[5] = {64, rows, halves, 1, cols / 64}, strides[4] = {cols * 2, rows * cols * 2, cols * 2, 128};
    cuuint32_t box[5] = {64, 8, 1, 1, chunks}, each[5] = {1, 1, 1, 1, 1};
    CUtensorMap made;
    CUresult status = encode(&made, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 5, matrix, sizes, strides, box, each, CU_TENSOR_MAP_INTERLEAVE_NONE,
                             CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    if (status) printf("CUDA: a map of a matrix (error %d)\n", status), exit(2);
    Map ours;
    memcpy(&ours, &made, sizeof ours);
    return ours;
}

struct Weights {
    std::vector<u16> qkv, o, gate_up, down, keys, values;
};

struct Model {
    std::vector<Weights> layers;
    std::vector<float> gain, angles, stream;
    std::vector<u32> pages;

    Model() : gain(DIM), angles(PAGES * PAGE * WIDTH), stream(DIM), pages(PAGES) {
        for (auto &x : gain) x = 1.0f + 0.1f * noise();
        for (auto &x : stream) x = noise();
        for (int i = 0; i < PAGES; i++) pages[i] = (i * 7 + 3) % PAGES;
        for (int at = 0; at < PAGES * PAGE; at++)
            for (int i = 0; i < WIDTH / 2; i++) {
                double angle = at * pow(10000.0, -i / 32.0);
                angles[at * WIDTH + i] = cos(angle), angles[at * WIDTH + WIDTH / 2 + i] = sin(angle);
            }
        size_t cache = (size_t)PAGES * KV_HEADS * PAGE * WIDTH;
        for (int i = 0; i < LAYERS; i++)
            layers.push_back({matrix(QKV * DIM, 0.06f), matrix(DIM * DIM, 0.03f), matrix(2 * FFN * DIM, 0.06f), matrix(DIM * FFN, 0.03f), matrix(cache, 0.7f), matrix(cache, 0.7f)});
    }
};

// The stream behind all layers, in double precision but for what is rounded on the way.
static std::vector<double> expected(const Model &model, int last) {
    std::vector<double> x(model.stream.begin(), model.stream.end());
    auto normed = [&]() {
        double squares = 0;
        for (double v : x) squares += v * v;
        std::vector<float> out(DIM);
        for (int i = 0; i < DIM; i++) out[i] = widened(rounded((float)(x[i] / sqrt(squares / DIM + EPS)) * model.gain[i]));
        return out;
    };
    auto product = [](const std::vector<u16> &w, int row, const std::vector<float> &v) {
        double sum = 0;
        for (size_t i = 0; i < v.size(); i++) sum += (double)widened(w[row * v.size() + i]) * v[i];
        return sum;
    };
    for (const Weights &w : model.layers) {
        std::vector<float> act = normed();
        std::vector<double> qkv(QKV);
        for (int row = 0; row < QKV; row++) qkv[row] = product(w.qkv, row, act);
        const float *cosines = &model.angles[last * WIDTH], *sines = cosines + WIDTH / 2;
        for (int head = 0; head < HEADS + KV_HEADS; head++)
            for (int i = 0; i < WIDTH / 2; i++) {
                double &a = qkv[head * WIDTH + i], &b = qkv[head * WIDTH + WIDTH / 2 + i], first = a * cosines[i] - b * sines[i];
                b = b * cosines[i] + a * sines[i], a = first;
            }
        std::vector<float> attended(HEADS * WIDTH);
        for (int head = 0; head < HEADS; head++) {
            int kv_head = head / FAN;
            auto kept = [&](const std::vector<u16> &cache, int first, int at, int d) {
                if (at == last) return widened(rounded(qkv[(first + kv_head) * WIDTH + d]));
                return widened(cache[(((size_t)model.pages[at / PAGE] * KV_HEADS + kv_head) * PAGE + at % PAGE) * WIDTH + (d ^ (at & 7) * 8)]);
            };
            std::vector<double> score(last + 1);
            double sum = 0;
            for (int at = 0; at <= last; at++) {
                for (int d = 0; d < WIDTH; d++) score[at] += (double)widened(rounded(qkv[head * WIDTH + d])) * kept(w.keys, HEADS, at, d);
                sum += score[at] = exp(score[at] * SCALE);
            }
            for (int d = 0; d < WIDTH; d++) {
                double value = 0;
                for (int at = 0; at <= last; at++) value += score[at] * kept(w.values, HEADS + KV_HEADS, at, d);
                attended[head * WIDTH + d] = widened(rounded(value / sum));
            }
        }
        for (int row = 0; row < DIM; row++) x[row] = (float)(x[row] + product(w.o, row, attended));
        act = normed();
        std::vector<float> hidden(FFN);
        for (int i = 0; i < FFN; i++) {
            double gate = product(w.gate_up, i, act), up = product(w.gate_up, FFN + i, act);
            hidden[i] = widened(rounded(gate / (1 + exp(-gate)) * up));
        }
        for (int row = 0; row < DIM; row++) x[row] = (float)(x[row] + product(w.down, row, hidden));
    }
    return x;
}

int main(int n_args, char **args) {
    Model model;
    float *gain = upload(model.gain);
    std::vector<Layer> layers;
    for (const Weights &w : model.layers) {
        Layer layer = {};
        layer.qkv = map(upload(w.qkv), QKV, 1, DIM, DIM / 64), layer.o = map(upload(w.o), DIM, 1, DIM, K_O / 64);
        layer.gate_up = map(upload(w.gate_up), FFN, 2, DIM, DIM / 64), layer.down = map(upload(w.down), DIM, 1, FFN, K_DOWN / 64);
        layer.attn_gain = layer.mlp_gain = gain, layer.keys = upload(w.keys), layer.values = upload(w.values);
        layers.push_back(layer);
    }
    auto slots = [](int n_clusters) { return upload(std::vector<u32>(SLOTS * n_clusters * CLUSTER * BLOCK_WORDS, NOTHING)); };
    Alone alone = {};
    alone.layers = upload(layers), alone.stream = upload(model.stream), alone.angles = upload(model.angles), alone.pages = upload(model.pages);
    alone.o_sums = slots(KV_HEADS), alone.down_sums = slots(FEEDERS), alone.progress = upload(std::vector<Progress>(1));
    alone.n_layers = LAYERS, alone.n_pages_max = PAGES, alone.gives_stream = 1, alone.eps = EPS, alone.scale = SCALE;
    u32 *position = upload(std::vector<u32>(1));
    alone.positions = position;

    cudaLaunchConfig_t config = {};
    config.gridDim = CLUSTER * (KV_HEADS + FEEDERS), config.blockDim = ALONE_THREADS, config.dynamicSmemBytes = sizeof(Shared) + 1024;
    check(cudaFuncSetAttribute(alone_step, cudaFuncAttributeMaxDynamicSharedMemorySize, sizeof(Shared) + 1024));
    check(cudaStreamCreate(&config.stream));
    cudaGraph_t graph;
    cudaGraphExec_t ready;
    check(cudaStreamBeginCapture(config.stream, cudaStreamCaptureModeThreadLocal));
    for (int i = 0; i < LAUNCHES; i++) check(cudaLaunchKernelEx(&config, alone_step, alone));
    check(cudaStreamEndCapture(config.stream, &graph));
    check(cudaGraphInstantiate(&ready, graph, 0));
    cudaEvent_t begin, end;
    check(cudaEventCreate(&begin)), check(cudaEventCreate(&end));

    for (int i = 1; i < n_args; i++) {
        u32 last = atoi(args[i]);
        std::vector<float> found(DIM);
        check(cudaMemcpy(position, &last, 4, cudaMemcpyHostToDevice));
        for (int l = 0; l < LAYERS; l++) {
            const Weights &w = model.layers[l];
            check(cudaMemcpy(layers[l].keys, w.keys.data(), w.keys.size() * 2, cudaMemcpyHostToDevice));
            check(cudaMemcpy(layers[l].values, w.values.data(), w.values.size() * 2, cudaMemcpyHostToDevice));
        }
        check(cudaMemcpy(alone.stream, model.stream.data(), DIM * 4, cudaMemcpyHostToDevice));
        check(cudaLaunchKernelEx(&config, alone_step, alone));
        check(cudaStreamSynchronize(config.stream));
        check(cudaMemcpy(found.data(), alone.stream, DIM * 4, cudaMemcpyDeviceToHost));
        double apart = 0, all = 0;
        std::vector<double> wanted = expected(model, last);
        for (int d = 0; d < DIM; d++) apart += pow(found[d] - wanted[d], 2), all += pow(wanted[d], 2);
        float least = 1e9f;
        for (int turn = 0; turn < TIMES; turn++) {
            float ms;
            check(cudaEventRecord(begin, config.stream)), check(cudaGraphLaunch(ready, config.stream)), check(cudaEventRecord(end, config.stream));
            check(cudaStreamSynchronize(config.stream)), check(cudaEventElapsedTime(&ms, begin, end));
            least = std::min(least, ms);
        }
        printf("{\"position\": %u, \"apart\": %.4f, \"us\": %.1f}\n", last, sqrt(apart / all), least * 1000 / LAUNCHES);
    }
}
