// Pieces that SyReNN finds on a polygon or a segment, and its CPU seconds on one thread.
//
// This is only the driver: it includes the unmodified sources of SyReNN (the repository
// 95616ARG/SyReNN, MIT licence), which are kept elsewhere. To build it in a folder of its own, with
// Eigen 3, oneTBB and protobuf (libeigen3-dev, libtbb-dev, protobuf-compiler, libprotobuf-dev):
//
//     git clone https://github.com/95616ARG/SyReNN
//     protoc -I SyReNN --cpp_out=. SyReNN/syrenn_proto/syrenn.proto
//     mkdir -p openblas && touch openblas/cblas.h mkldnn.hpp
//     echo '#include "syrenn.pb.h"' > syrenn_proto/syrenn.grpc.pb.h
//     g++ -std=c++17 -O3 -march=native -DNDEBUG -I . -I SyReNN -o syrenn \
//         HARDMAX/benchmarks/drive_syrenn.cc syrenn_proto/syrenn.pb.cc -lprotobuf -ltbb -lpthread
//     export HARDMAX_SYRENN=$PWD/syrenn
//
// Three things that SyReNN takes from libraries are written below, so that neither gRPC nor MKL-DNN
// nor OpenBLAS is needed: the ReLU of an array, a rank-one update, and the old name of a TBB loop.
// None of them is slower than the library.
//
// Usage: syrenn FILE SECONDS. FILE holds numbers in text: the number of layers; for each its inputs
// and outputs, its weights acting on row vectors, its biases; the number of domains; for each the
// number of its points (2 for a segment, more for a polygon, anticlockwise) and the points. All
// layers but the last are followed by ReLUs. On each domain the work is repeated until SECONDS have
// passed, and the smallest time counts. Prints a line of JSON: pieces and seconds, by domain, and the
// seconds that it takes to set the network up from its weights.

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include <tbb/global_control.h>
#include <tbb/tbb.h>

namespace tbb {
template <typename Item>
using parallel_do_feeder = feeder<Item>;

template <typename Iterator, typename Body>
void parallel_do(Iterator first, Iterator last, const Body &body) {
  parallel_for_each(first, last, body);
}
}  // namespace tbb

// The part of the interface of MKL-DNN that SyReNN's ReLU uses.
#define MKLDNN_ARG_SRC 0
#define MKLDNN_ARG_DST 1

namespace mkldnn {
struct engine {
  enum class kind { cpu };
  engine(kind, int) {}
};
struct stream {
  explicit stream(const engine &) {}
};
enum class prop_kind { forward_inference };
enum class algorithm { eltwise_relu };
struct memory {
  using dims = std::vector<int>;
  enum class data_type { f32 };
  enum class format_tag { x };
  struct desc {
    desc(dims size, data_type, format_tag) : length(size[0]) {}
    int length;
  };
  memory(const desc &shape, const engine &, float *data) : shape(shape), data(data) {}
  desc get_desc() const { return shape; }
  desc shape;
  float *data;
};
struct eltwise_forward {
  struct desc {
    desc(prop_kind, algorithm, const memory::desc &, float, float) {}
  };
  struct primitive_desc {
    primitive_desc(const desc &, const engine &) {}
  };
  explicit eltwise_forward(const primitive_desc &) {}
  void execute(const stream &, std::initializer_list<std::pair<int, memory>> arguments) const {
    const memory &values = arguments.begin()->second;
    for (int i = 0; i < values.shape.length; i++) {
      values.data[i] = values.data[i] > 0.0f ? values.data[i] : 0.0f;
    }
  }
};
}  // namespace mkldnn

enum CblasOrder { CblasRowMajor };

inline void cblas_sger(CblasOrder, size_t rows, size_t columns, float alpha, const float *x, int,
                       const float *y, int, float *matrix, size_t stride) {
  for (size_t i = 0; i < rows; i++) {
    const float scale = alpha * x[i];
    for (size_t j = 0; j < columns; j++) {
      matrix[i * stride + j] += scale * y[j];
    }
  }
}

#include "syrenn_server/affine_transformer.cc"
#include "syrenn_server/fullyconnected_transformer.cc"
#include "syrenn_server/pwl_transformer.cc"
#include "syrenn_server/relu_transformer.cc"
#include "syrenn_server/segmented_line.cc"
#include "syrenn_server/transformer.cc"
#include "syrenn_server/upolytope.cc"

using Layers = std::vector<std::unique_ptr<LayerTransformer>>;

RMMatrixXf Read(std::ifstream *file, size_t rows, size_t columns) {
  RMMatrixXf values(rows, columns);
  for (size_t i = 0; i < rows * columns; i++) {
    *file >> values.data()[i];
  }
  return values;
}

// The images of the ends under the whole network are found too.
size_t PiecesOfSegment(const RMMatrixXf &ends, const Layers &layers) {
  SegmentedLine line(ends.row(0), ends.row(1));
  for (const auto &layer : layers) {
    layer->TransformLine(&line);
  }
  line.PrecomputePoints();
  size_t pieces = 0;
  for (size_t i = 1; i < line.Size(); i++) {
    pieces += line.endpoint_ratio(i) != line.endpoint_ratio(i - 1);
  }
  return pieces;
}

size_t PiecesOfPolygon(RMMatrixXf corners, const Layers &layers) {
  std::vector<size_t> around(corners.rows());
  for (size_t i = 0; i < around.size(); i++) {
    around[i] = i;
  }
  UPolytope polygons(&corners, 2, {around});
  for (const auto &layer : layers) {
    layer->TransformUPolytope(&polygons);
  }
  return polygons.n_polytopes();
}

// CPU seconds; std::clock has microseconds, too few for a small network.
double Now() {
  timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return now.tv_sec + 1e-9 * now.tv_nsec;
}

// The pieces and the smallest time of several rounds; the first warms up and is not counted.
std::pair<size_t, double> Measure(const RMMatrixXf &points, const Layers &layers, double limit) {
  size_t pieces = 0;
  double spent = 0.0, best = 0.0;
  for (int round = 0; round < 2 || spent < limit; round++) {
    const double start = Now();
    pieces = points.rows() == 2 ? PiecesOfSegment(points, layers) : PiecesOfPolygon(points, layers);
    const double seconds = Now() - start;
    if (round > 0) {
      spent += seconds;
      best = round == 1 ? seconds : std::min(best, seconds);
    }
  }
  return {pieces, best};
}

Layers SetUp(const std::vector<RMMatrixXf> &weights, const std::vector<RMMatrixXf> &biases) {
  Layers layers;
  for (size_t i = 0; i < weights.size(); i++) {
    const RMVectorXf bias = biases[i];
    layers.emplace_back(new FullyConnectedTransformer(weights[i], bias));
    if (i + 1 < weights.size()) {
      layers.emplace_back(new ReLUTransformer());
    }
  }
  return layers;
}

int main(int argc, char **argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: %s FILE SECONDS\n", argv[0]);
    return 2;
  }
  tbb::global_control one_thread(tbb::global_control::max_allowed_parallelism, 1);
  std::ifstream file(argv[1]);
  size_t n_layers = 0, dim = 0, n_domains = 0;
  file >> n_layers;
  std::vector<RMMatrixXf> weights, biases;
  for (size_t i = 0; i < n_layers; i++) {
    size_t n_in = 0, n_out = 0;
    file >> n_in >> n_out;
    weights.push_back(Read(&file, n_in, n_out));
    biases.push_back(Read(&file, 1, n_out));
    dim = i == 0 ? n_in : dim;
  }
  Layers layers;
  double setup = 0.0;
  for (int round = 0; round < 20; round++) {
    const double start = Now();
    layers = SetUp(weights, biases);
    const double seconds = Now() - start;
    setup = round == 0 ? seconds : std::min(setup, seconds);
  }
  file >> n_domains;
  std::string pieces, times;
  for (size_t i = 0; i < n_domains; i++) {
    size_t n_points = 0;
    file >> n_points;
    const RMMatrixXf points = Read(&file, n_points, dim);
    if (!file) {
      break;
    }
    const auto found = Measure(points, layers, std::atof(argv[2]));
    const std::string comma = i == 0 ? "" : ", ";
    pieces += comma + std::to_string(found.first);
    char seconds[32];
    std::snprintf(seconds, sizeof seconds, "%.9f", found.second);
    times += comma + seconds;
  }
  if (!file || n_domains == 0) {
    std::fprintf(stderr, "%s cannot be read\n", argv[1]);
    return 2;
  }
  std::printf("{\"cells\": [%s], \"seconds\": [%s], \"setup\": %.9f}\n", pieces.c_str(),
              times.c_str(), setup);
  return 0;
}
