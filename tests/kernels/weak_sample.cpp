// What the weak-symbol check must refuse: an inline function of external linkage, as any STL header
// has.
inline int weak_sample(int x) {
  return x + 1;
}

using WeakSample = int (*)(int);
extern "C" WeakSample tz_weak_sample();

extern "C" WeakSample tz_weak_sample() {
  return weak_sample;
}
