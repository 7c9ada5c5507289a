// layer.cpp: a whole multi-head attention layer from C++17: contexts, queues and buffers that release themselves, errors as
// exceptions with clattn's own line, and the header's structs filled by name.
//     c++ -std=c++17 layer.cpp $(pkg-config --cflags --libs clattn OpenCL)
#include <clattn/clattn.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

struct release {
    void operator()(clattn_context *c) const { clattn_context_destroy(c); }
    void operator()(cl_command_queue q) const { clReleaseCommandQueue(q); }
    void operator()(cl_mem m) const { clReleaseMemObject(m); }
};
using context_ptr = std::unique_ptr<clattn_context, release>;
using queue_ptr = std::unique_ptr<std::remove_pointer_t<cl_command_queue>, release>;
using buffer_ptr = std::unique_ptr<std::remove_pointer_t<cl_mem>, release>;

// A device's context: the line of a failure arrives by the log, since there may be no context to ask.
class engine {
  public:
    explicit engine(cl_device_id device) {
        clattn_context_params setup{};
        setup.device = device;
        setup.log = {
            [](void *self, clattn_log_level, const char *line) { static_cast<engine *>(self)->line = line; },
            this, CLATTN_LOG_ERROR};
        clattn_context *made = nullptr;
        check(clattn_context_create(&setup, &made));
        context.reset(made);
        cl_int code = CL_SUCCESS;
        queue.reset(clCreateCommandQueue(clattn_context_opencl(made), device, 0, &code));
        if (!queue) throw std::runtime_error("clCreateCommandQueue: " + std::to_string(code));
    }
    engine(const engine &) = delete; // the log has its address
    engine &operator=(const engine &) = delete;

    void check(clattn_status status) const {
        if (status != CLATTN_OK)
            throw std::runtime_error(std::string(clattn_status_name(status)) + ": " + line);
    }
    buffer_ptr buffer(std::size_t count, const float *values = nullptr) const {
        cl_int code = CL_SUCCESS;
        const cl_mem_flags flags = CL_MEM_READ_WRITE | (values ? CL_MEM_COPY_HOST_PTR : 0);
        buffer_ptr made(clCreateBuffer(clattn_context_opencl(context.get()), flags, count * sizeof(float),
                                       const_cast<float *>(values), &code));
        if (!made) throw std::runtime_error("clCreateBuffer: " + std::to_string(code));
        return made;
    }
    void run(const clattn_layer_params &layer) const {
        check(clattn_layer_enqueue(context.get(), queue.get(), &layer, 0, nullptr, nullptr));
    }
    std::vector<float> read(const buffer_ptr &from, std::size_t count) const {
        std::vector<float> values(count);
        clEnqueueReadBuffer(queue.get(), from.get(), CL_TRUE, 0, count * sizeof(float), values.data(), 0,
                            nullptr, nullptr);
        return values;
    }

  private:
    std::string line;
    context_ptr context;
    queue_ptr queue;
};

template <typename... Sizes> clattn_tensor view(const buffer_ptr &of, Sizes... sizes) {
    const int64_t shape[] = {sizes...};
    return clattn_tensor_dense(of.get(), CLATTN_TYPE_F32, static_cast<int>(sizeof...(sizes)), shape);
}

int main() try {
    constexpr int rows = 10, width = 32, heads = 4;
    clattn_device device;
    std::size_t count = 0;
    if (clattn_device_list(&device, 1, &count, nullptr) != CLATTN_OK) return 77;
    const engine on(device.device);

    // With identities as weights and rows that are all the same, the layer gives back what it is given.
    std::vector<float> x(rows * width), identity(width * width);
    for (int i = 0; i < rows * width; i++) x[i] = std::sin(static_cast<float>(i % width));
    for (int i = 0; i < width; i++) identity[i * width + i] = 1;
    const buffer_ptr in = on.buffer(x.size(), x.data()), w = on.buffer(identity.size(), identity.data()),
                     out = on.buffer(x.size());
    clattn_layer_params layer{};
    layer.x = view(in, 1, rows, width);
    layer.wq = layer.wk = layer.wv = layer.wo = view(w, width, width);
    layer.out = view(out, 1, rows, width);
    layer.heads = heads;
    layer.score.causal = true;
    on.run(layer);

    float most = 0;
    const std::vector<float> y = on.read(out, x.size());
    for (std::size_t i = 0; i < y.size(); i++) most = std::max(most, std::abs(y[i] - x[i]));

    // What is wrong is told before anything runs.
    bool told = false;
    layer.heads = 5;
    try {
        on.run(layer);
    } catch (const std::runtime_error &error) {
        std::printf("as it should, five heads are refused: %s\n", error.what());
        told = true;
    }
    std::printf("a layer of identities: the largest difference is %.2g\n", static_cast<double>(most));
    return told && most < 1e-5f ? 0 : 1;
} catch (const std::exception &error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
}
