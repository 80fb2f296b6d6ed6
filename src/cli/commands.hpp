#pragma once
/// \file
/// The groups of commands. Each function adds its subcommands, which leave what was asked for in
/// `selection`.
#include "command.hpp"

namespace CLI {
class App;
}  // namespace CLI

namespace tenzro::cli {

/// moe shard-map, plan-dispatch, replication-policy, catalog-shape
void add_shard_commands(CLI::App& moe, Selection& selection);
/// moe load-expert, load-gate, unload-expert, unload-gate, status
void add_expert_commands(CLI::App& moe, Selection& selection);
/// moe route, execute, forward
void add_forward_commands(CLI::App& moe, Selection& selection);
/// moe prepare-experts, prepare-status, prepare-list, prepare-cancel
void add_prepare_commands(CLI::App& moe, Selection& selection);
/// moe receipts, dispute
void add_receipt_commands(CLI::App& moe, Selection& selection);
/// status, providers
void add_node_commands(CLI::App& app, Selection& selection);
/// drain
void add_drain_command(CLI::App& app, Selection& selection);
/// demo
void add_demo_command(CLI::App& app, Selection& selection);
/// doctor
void add_doctor_command(CLI::App& app, Selection& selection);
/// bench
void add_bench_command(CLI::App& app, Selection& selection);

}  // namespace tenzro::cli
