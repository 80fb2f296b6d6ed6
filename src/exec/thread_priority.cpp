#include "tenzro/exec/thread_priority.hpp"

#include <sys/resource.h>
#include <unistd.h>

namespace tenzro::exec {
namespace {

/// Enough that the loop's thread wins every contest for a core, little enough that the node does
/// not starve beside other programs.
constexpr int kWorkerNice = 5;

}  // namespace

/// Linux keeps niceness per thread, under the thread's id.
void lower_priority_of_this_thread() {
  const auto thread_id = static_cast<id_t>(gettid());
  // Above what it has: the whole process may have been started with a niceness of its own.
  const int own = getpriority(PRIO_PROCESS, thread_id);
  static_cast<void>(setpriority(PRIO_PROCESS, thread_id, own + kWorkerNice));
}

}  // namespace tenzro::exec
