// What a kernel may not do, so that a test sees the scan of its symbols refuse it.
namespace tenzro::arch {

__attribute__((noinline)) inline int weak_sample_inline(int value) { return value + 1; }

int weak_sample(int value);

int weak_sample(int value) { return weak_sample_inline(value); }

}  // namespace tenzro::arch
