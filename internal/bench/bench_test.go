package bench

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAJobThatRanTwiceIsNoticedAndTheNumbersRefused(t *testing.T) {
	t.Parallel()
	r := newRun(Options{Jobs: 100})
	for n := range 99 {
		r.mark(n)
	}
	r.mark(40)
	select {
	case <-r.all:
		require.Fail(t, "a job that ran twice does not stand in for one that has not run")
	default:
	}
	r.mark(99)
	<-r.all
	require.EqualError(t, r.verify(t.Context(), nil), "1 jobs ran more than once")
}

func TestResultsThatWereNotReadAreNoticed(t *testing.T) {
	t.Parallel()
	r := newRun(Options{Jobs: 22, Children: 10})
	r.read.Add(19)
	require.EqualError(t, r.verify(t.Context(), nil), "finalizers have read 19 results of 20 children")
	r.mark(22)
	require.ErrorContains(t, r.verify(t.Context(), nil), "1 finalizers")
}

func TestTreesAreWhole(t *testing.T) {
	t.Parallel()
	require.Equal(t, 7, Options{Jobs: 7}.Total())
	require.Equal(t, 11, Options{Jobs: 1, Children: 10}.Total())
	require.Equal(t, 11, Options{Jobs: 11, Children: 10}.Total())
	require.Equal(t, 22, Options{Jobs: 12, Children: 10}.Total())
}
