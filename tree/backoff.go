package tree

import (
	"fmt"
	"math"
	"time"
)

// Backoff spaces the attempts of a job: after its n-th failure it waits Base * Factor^(n-1), at most
// Cap, plus a random share of up to Jitter of that, and never more than Cap in all.
type Backoff struct {
	Base   time.Duration // the first delay; 0: one second, or Cap if that is shorter
	Factor float64       // growth from one delay to the next, 1 to 100; 0: 2
	Cap    time.Duration // a true maximum, jitter included; 0: one hour, or Base if that is longer
	Jitter float64       // 0 to 1; 0: none
}

// DefaultBackoff is what a job gets when neither it nor its worker's registration says otherwise: 1 s,
// doubling, at most an hour, a tenth of jitter.
func DefaultBackoff() Backoff {
	return Backoff{Base: time.Second, Factor: 2, Cap: time.Hour, Jitter: 0.1}
}

// WithDefaults returns the backoff with every zero field replaced by its default.
func (b Backoff) WithDefaults() Backoff {
	if b.Base == 0 {
		b.Base = DefaultBackoff().Base
		if b.Cap > 0 {
			b.Base = min(b.Base, b.Cap)
		}
	}
	if b.Factor == 0 {
		b.Factor = DefaultBackoff().Factor
	}
	if b.Cap == 0 {
		b.Cap = max(DefaultBackoff().Cap, b.Base)
	}
	return b
}

// Delay returns the wait after the n-th failure (n from 1; lower counts as 1), for a random number r in
// [0, 1). It never overflows, is never negative and never above the cap, also for a backoff that Check
// would refuse.
func (b Backoff) Delay(n int, r float64) time.Duration {
	b = b.WithDefaults()
	limit := max(0, b.Cap)
	d := float64(b.Base) * math.Pow(b.Factor, float64(max(n, 1)-1))
	d += min(d, float64(limit)) * b.Jitter * r
	switch {
	case d < 0:
		return 0
	case !(d < float64(limit)): // also what is no number; and a float may round to above the limit
		return limit
	}
	return time.Duration(d)
}

// Check reports what is wrong with the backoff, or nil.
func (b Backoff) Check() error {
	switch {
	case b.Base < 0 || b.Base > MaxDuration:
		return fmt.Errorf("base %v is outside 0 to %v", b.Base, MaxDuration)
	case b.Cap < 0 || b.Cap > MaxDuration:
		return fmt.Errorf("cap %v is outside 0 to %v", b.Cap, MaxDuration)
	case b.Cap != 0 && b.Cap < b.Base:
		return fmt.Errorf("cap %v is below the base %v", b.Cap, b.Base)
	case b.Factor != 0 && !(b.Factor >= 1 && b.Factor <= 100): // written so that NaN fails
		return fmt.Errorf("factor %v is outside 1 to 100", b.Factor)
	case !(b.Jitter >= 0 && b.Jitter <= 1):
		return fmt.Errorf("jitter %v is outside 0 to 1", b.Jitter)
	}
	return nil
}
