// Programs that call the handlers, on a real CPU plug-in.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "worker/engine/testing_engine.h"
#include "worker/linalg/native_handlers.h"

namespace switchtower {
namespace {

// potrf of [batch, n, n] in the layout that jax asks for.
std::string CholeskyProgram(int batch, int n) {
  const std::string dims = std::to_string(batch) + "x" + std::to_string(n) + "x" + std::to_string(n);
  return "module @c { func.func public @main(%x: tensor<" + dims + "xf32>) -> (tensor<" + dims + "xf32>, tensor<" +
         std::to_string(batch) + R"(xi32>) {
    %r:2 = stablehlo.custom_call @lapack_spotrf_ffi(%x) {api_version = 4 : i32, backend_config = {uplo = 76 : ui8},
        operand_layouts = [dense<[1, 2, 0]> : tensor<3xindex>],
        result_layouts = [dense<[1, 2, 0]> : tensor<3xindex>, dense<[0]> : tensor<1xindex>]}
        : (tensor<)" +
         dims + "xf32>) -> (tensor<" + dims + "xf32>, tensor<" + std::to_string(batch) + R"(xi32>)
    return %r#0, %r#1 : tensor<)" +
         dims + "xf32>, tensor<" + std::to_string(batch) + "xi32> } }";
}

class NativeCallsTest : public PjrtEngineTest {
 protected:
  void SetUp() override {
    PjrtEngineTest::SetUp();
    if (HasFatalFailure()) return;
    ASSERT_TRUE(RegisterNativeHandlers(*engine_).ok());
  }

  // Matrix m of the batch is 4 on the diagonal and 1 elsewhere, but m = 1 is negative.
  std::vector<float> Input(int batch, int n) const {
    std::vector<float> values(static_cast<size_t>(batch * n * n), 1.0f);
    for (int m = 0; m < batch; ++m) {
      for (int i = 0; i < n; ++i) values[static_cast<size_t>((m * n + i) * n + i)] = m == 1 ? -4.0f : 4.0f;
    }
    return values;
  }

  // Runs the program on a device and says what went wrong, or nothing.
  std::string RunCholesky(const EngineProgramPtr& program, int device, int batch, int n) {
    std::promise<absl::Status> done;
    auto outputs = engine_->Execute({.device = device,
                                     .program = program,
                                     .arguments = {Put<float>({DType::kF32, {batch, n, n}}, Input(batch, n), device)}},
                                    [&done](absl::Status status) { done.set_value(std::move(status)); });
    const absl::Status status = done.get_future().get();
    if (!status.ok()) return std::string(status.message());
    const auto factor = Get<float>((*outputs)[0]);
    const auto info = Get<int32_t>((*outputs)[1]);
    if (!factor.ok() || !info.ok()) return "no results";
    for (int m = 0; m < batch; ++m) {
      if ((*info)[static_cast<size_t>(m)] != (m == 1 ? 1 : 0)) return "info of matrix " + std::to_string(m);
      if (m == 1) continue;
      const float* l = factor->data() + m * n * n;
      for (int i = 0; i < n; ++i) {
        for (int j = 0; j <= i; ++j) {
          float sum = 0;
          for (int k = 0; k <= j; ++k) sum += l[i * n + k] * l[j * n + k];
          if (std::fabs(sum - (i == j ? 4.0f : 1.0f)) > 1e-4f) return "factor of matrix " + std::to_string(m);
        }
      }
    }
    return "";
  }
};

TEST_F(NativeCallsTest, BatchesOnSeveralDevicesAtOnce) {
  constexpr int kBatch = 60,
                kOrder = 32;  // enough work to be spread over threads
  const auto program = CompileAndLoad(CholeskyProgram(kBatch, kOrder));
  ASSERT_TRUE(program.ok()) << program.status();
  std::vector<std::string> failures(8);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < failures.size(); ++t) {
    threads.emplace_back([&, t] {
      for (int repeat = 0; repeat < 5 && failures[t].empty(); ++repeat) {
        failures[t] = RunCholesky(*program, static_cast<int>(t % 2), kBatch, kOrder);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(failures, ::testing::Each(""));
}

// Large enough for the library's work buffers, which concurrent calls must not share. Eigenvalues of a flavour of
// OpenBLAS without locks differ here.
TEST_F(NativeCallsTest, ConcurrentCallsGiveTheSameBits) {
  constexpr int kBatch = 8, kOrder = 120;
  const auto program = CompileAndLoad(R"(
module @e { func.func public @main(%x: tensor<8x120x120xcomplex<f64>>) -> tensor<8x120xf64> {
    %r:3 = stablehlo.custom_call @lapack_zheevd_ffi(%x) {api_version = 4 : i32,
        backend_config = {uplo = 76 : ui8, mode = 86 : ui8},
        operand_layouts = [dense<[1, 2, 0]> : tensor<3xindex>],
        result_layouts = [dense<[1, 2, 0]> : tensor<3xindex>, dense<[1, 0]> : tensor<2xindex>,
                          dense<[0]> : tensor<1xindex>]}
        : (tensor<8x120x120xcomplex<f64>>)
        -> (tensor<8x120x120xcomplex<f64>>, tensor<8x120xf64>, tensor<8xi32>)
    return %r#1 : tensor<8x120xf64> } })");
  ASSERT_TRUE(program.ok()) << program.status();
  // The same Hermitian matrix throughout.
  std::vector<std::complex<double>> matrices(static_cast<size_t>(kBatch) * kOrder * kOrder);
  for (size_t m = 0; m < kBatch; ++m) {
    for (size_t i = 0; i < kOrder; ++i) {
      for (size_t j = 0; j <= i; ++j) {
        const std::complex<double> value(std::sin(3.0 * i + 7.0 * j), i == j ? 0 : std::cos(5.0 * i - j));
        matrices[(m * kOrder + i) * kOrder + j] = value;
        matrices[(m * kOrder + j) * kOrder + i] = std::conj(value);
      }
    }
  }
  std::vector<std::vector<double>> values(6);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < values.size(); ++t) {
    threads.emplace_back([&, t] {
      const auto device = static_cast<int32_t>(t % 2);
      const EngineBufferPtr input =
          Put<std::complex<double>>({DType::kC128, {kBatch, kOrder, kOrder}}, matrices, device);
      for (int repeat = 0; repeat < 4; ++repeat) {
        std::promise<absl::Status> done;
        auto outputs = engine_->Execute({.device = device, .program = *program, .arguments = {input}},
                                        [&done](absl::Status status) { done.set_value(std::move(status)); });
        ASSERT_TRUE(done.get_future().get().ok());
        const auto one = Get<double>((*outputs)[0]);
        ASSERT_TRUE(one.ok());
        values[t].insert(values[t].end(), one->begin(), one->end());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::vector<double>& some : values) {
    for (size_t i = 0; i < some.size(); ++i) {
      ASSERT_EQ(some[i], values[0][i % kOrder]) << "value " << i;
    }
  }
}

}  // namespace
}  // namespace switchtower
