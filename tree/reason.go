package tree

// Reason says why automatic work gave up on a job and sent it to the dead-letter queue. The catalogue is
// stable: a value keeps its meaning for ever, and a new meaning gets a new value.
type Reason string

// The reasons of dead letters.
const (
	ReasonFatal         Reason = "fatal"          // the handler returned engine.Fatal
	ReasonAttemptsSpent Reason = "attempts_spent" // the last allowed attempt failed
	ReasonAgeSpent      Reason = "age_spent"      // the next retry would be past the job's max age
	ReasonUndecodable   Reason = "undecodable"    // the args do not decode into the handler's type; bytes intact
	ReasonBadResult     Reason = "bad_result"     // the result cannot be stored: too large, NUL, or not JSON
	ReasonBadFanOut     Reason = "bad_fan_out"    // the children that the handler asked for cannot be inserted as they are
	ReasonLost          Reason = "lost"           // workers died on it too often, or once where that is too often
	ReasonFailFast      Reason = "fail_fast"      // stopped because a child of it, or of an ancestor whose policy is Fail, died
	ReasonNeverSealed   Reason = "never_sealed"   // stopped because it, or an ancestor, was still open to more children at its deadline
)

// Reasons lists the catalogue.
func Reasons() []Reason {
	return []Reason{
		ReasonFatal, ReasonAttemptsSpent, ReasonAgeSpent, ReasonUndecodable, ReasonBadResult, ReasonBadFanOut,
		ReasonLost, ReasonFailFast, ReasonNeverSealed,
	}
}

// Outcome says how one attempt failed, as its row in job_errors keeps it.
type Outcome string

// The outcomes of failed attempts.
const (
	OutcomeError       Outcome = "error"       // the handler returned an error
	OutcomeTimeout     Outcome = "timeout"     // the job's own timeout ended it
	OutcomePanic       Outcome = "panic"       // the handler panicked; its stack is kept
	OutcomeUndecodable Outcome = "undecodable" // the args did not decode
	OutcomeBadResult   Outcome = "bad_result"  // the result could not be stored
	OutcomeBadFanOut   Outcome = "bad_fan_out" // the fan-out could not be made
	OutcomeLost        Outcome = "lost"        // its worker died
)
