// The daemon as a holder that lies, for tests of those who call it: TENZRO_LIE names the lie
// (lying_endpoint.hpp), or is "backend_nan": then its own arithmetic is broken.
#include <cstdlib>
#include <iostream>
#include <limits>
#include <memory>
#include <string>

#include <CLI/CLI.hpp>

#include "lying_endpoint.hpp"
#include "service.hpp"
#include "signals.hpp"
#include "startup.hpp"

namespace tenzro::testing {
namespace {

class NanBackend final : public compute::Backend {
 public:
  explicit NanBackend(std::unique_ptr<compute::Backend> real) : real_(std::move(real)) {}

  [[nodiscard]] std::string_view name() const override { return real_->name(); }

  [[nodiscard]] std::vector<compute::Device> devices() const override { return real_->devices(); }

  [[nodiscard]] Result<compute::ExpertMemory> memory_of(
      const compute::ExpertView& expert) const override {
    return real_->memory_of(expert);
  }

  [[nodiscard]] Result<std::shared_ptr<const compute::ResidentExpert>> upload_expert(
      const compute::ExpertView& expert, compute::Executor& executor) override {
    return real_->upload_expert(expert, executor);
  }

  [[nodiscard]] Result<std::shared_ptr<const compute::ResidentMatrix>> upload_matrix(
      const compute::MatrixView& matrix, std::span<const float> bias,
      compute::Executor& executor) override {
    return real_->upload_matrix(matrix, bias, executor);
  }

  [[nodiscard]] Status run_experts(const compute::ExpertsJob& job,
                                   compute::Executor& executor) override {
    const Status status = real_->run_experts(job, executor);
    for (const compute::ExpertBatch& batch : job.batches) {
      if (!batch.rows.empty()) *batch.out = std::numeric_limits<float>::quiet_NaN();
    }
    return status;
  }

  [[nodiscard]] Status run_matmul(const compute::MatmulJob& job,
                                  compute::Executor& executor) override {
    return real_->run_matmul(job, executor);
  }

 private:
  std::unique_ptr<compute::Backend> real_;
};

daemon::Seams seams_of(std::string_view name) {
  daemon::Seams seams;
  const Lie lie = lie_from_name(name);
  seams.listen = [lie](exec::Loop& loop, const crypto::KeyPair& identity,
                       const net::Options& options, net::Handler& handler) {
    return LyingEndpoint::listen(loop, identity, options, handler, lie);
  };
  if (name == "backend_nan") {
    seams.wrap_backend = [](std::unique_ptr<compute::Backend> real) {
      return std::make_unique<NanBackend>(std::move(real));
    };
  } else if (lie == Lie::none) {
    seams.listen = nullptr;
  }
  return seams;
}

}  // namespace
}  // namespace tenzro::testing

int main(int argc, char** argv) {
  using namespace tenzro;
  daemon::hold_signals();
  daemon::Flags flags;
  CLI::App app{"tenzrod that lies"};
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  app.add_option("--config", flags.config_file);
  app.add_option("--data-dir", flags.data_dir);
  app.add_option("--rpc-listen", flags.rpc_listen);
  app.add_option("--quic-listen", flags.quic_listen);
  app.add_option("--bootstrap", flags.bootstrap);
  CLI11_PARSE(app, argc, argv);
  const char* lie = std::getenv("TENZRO_LIE");
  const daemon::Seams seams = testing::seams_of(lie == nullptr ? "" : lie);
  const auto settings = daemon::read_settings(flags);
  if (!seams.listen || !settings) {
    std::cerr << (settings ? "TENZRO_LIE names no lie" : settings.error().text) << "\n";
    return 2;
  }
  return static_cast<int>(daemon::run_service(*settings, seams));
}
