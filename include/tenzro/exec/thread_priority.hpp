#pragma once

/// \file
/// The priority of threads that work for the loop: all of them run below it.

namespace tenzro::exec {

/// Gives way to the loop from now on. Called once, by each thread for itself. Where the system
/// refuses (some sandboxes) nothing changes: that costs timeliness under load, never a result.
void lower_priority_of_this_thread();

}  // namespace tenzro::exec
