package pglocal

import "context"

// target is the cluster that a caller means.
type target struct {
	folder folder
	base   string
	major  int
	any    bool     // no version was asked for and none is there: major is a proposal
	bin    binaries // zero where they did not matter for the choice
}

// choose returns the cluster that o means. One that exists goes before newer
// binaries, so that an upgrade of PostgreSQL does not seem to lose every job.
func choose(ctx context.Context, o Options) (target, error) {
	if err := o.validate(); err != nil {
		return target{}, err
	}
	base, err := o.base()
	if err != nil {
		return target{}, err
	}
	// Before anything in it is run.
	if err := safeBase(base); err != nil {
		return target{}, err
	}
	t := target{base: base, major: o.Major}
	if t.major == 0 && !o.Unsafe {
		t.major = existing(base)
	}
	if t.major == 0 {
		t.any = true
		t.major = newestMajor // the version that would be fetched
		if found := find(ctx, o.where(base)); len(found) > 0 {
			t.bin = found[0]
			t.major = t.bin.major
		}
	}
	t.folder = clusterFolder(base, t.major, o.Unsafe)
	return t, nil
}

// existing returns the major version of the newest durable cluster in base, and 0
// when there is none.
func existing(base string) int {
	for major := newestMajor; major >= oldestMajor; major-- {
		if clusterFolder(base, major, false).major() == major {
			return major
		}
	}
	return 0
}

func (o Options) where(base string) places {
	if o.places != nil {
		return *o.places
	}
	return usualPlaces(base)
}

// installed returns the target's binaries if they are on this machine.
func (t target) installed(ctx context.Context, o Options) (binaries, bool) {
	if t.bin.folder != "" {
		return t.bin, true
	}
	for _, b := range find(ctx, o.where(t.base)) {
		if b.major == t.major {
			return b, true
		}
	}
	return binaries{}, false
}

// obtain returns the target's binaries, and fetches them when they are not
// installed. It fails with a *NoBinariesError.
func (t target) obtain(ctx context.Context, o Options) (binaries, error) {
	if b, ok := t.installed(ctx, o); ok {
		return b, nil
	}
	fetch := o.fetch
	if fetch == nil {
		fetch = fetchFrom("")
	}
	o.progress("fetching PostgreSQL %d", t.major)
	folder, err := fetch(ctx, t.major, downloads(t.base))
	if err == nil {
		var b binaries
		if b, err = inspect(ctx, folder); err == nil {
			return b, nil
		}
	}
	missing := &NoBinariesError{Major: t.major, Looked: o.where(t.base).described(), Fetch: err}
	if t.any {
		missing.Major = 0
	}
	if t.folder.major() != 0 && !o.Unsafe {
		missing.Cluster = t.folder.data()
	}
	return binaries{}, missing
}
