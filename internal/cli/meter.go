package cli

import (
	"fmt"
	"time"

	"github.com/jedib0t/go-pretty/v6/progress"
	"github.com/jedib0t/go-pretty/v6/text"
)

const (
	meterRedraw = 100 * time.Millisecond // of the bar
	meterSpeaks = 5 * time.Second        // between two lines where there is no terminal
)

// meter shows on stderr how far something has come: as a bar on a terminal, and otherwise as a line now and then. While
// it lives nothing else may write to stderr. It is for one goroutine.
type meter struct {
	app   *App
	what  string
	total int64

	tracker *progress.Tracker // nil where there is no terminal
	drawn   chan struct{}     // closed when the bar is drawn no more
	spoken  time.Time         // when a line was written last
}

// newMeter starts one. The words say what is being done, and total is at least 1.
func (a *App) newMeter(what string, total int64) *meter {
	m := &meter{app: a, what: what, total: total, spoken: time.Now()}
	if !a.ErrTerminal {
		return m
	}
	m.tracker = &progress.Tracker{
		Message: what, Total: total, AutoStopDisabled: true, // it is done when done is called, not sooner
		Units: progress.Units{Formatter: func(n int64) string { return count(n) + " of " + count(total) }},
	}
	w := progress.NewWriter()
	w.SetOutputWriter(a.Err)
	w.SetAutoStop(true) // Stop is lost on a bar that was not drawn yet
	w.SetUpdateFrequency(meterRedraw)
	w.SetTrackerPosition(progress.PositionRight)
	w.SetTrackerLength(30)
	if columns := a.columns(); columns > 0 {
		w.SetTerminalWidth(columns)
		words := len(what+" 100% "+" [") + 2*len(count(total)) + len(" of  in 10m00s]")
		w.SetTrackerLength(max(4, min(30, columns-words-1)))
	}
	w.SetStyle(a.meterStyle())
	w.AppendTracker(m.tracker)
	m.drawn = make(chan struct{})
	go func() {
		defer close(m.drawn)
		w.Render()
	}()
	return m
}

func (a *App) meterStyle() progress.Style {
	style := progress.StyleBlocks
	style.Chars.BoxLeft, style.Chars.BoxRight = "", ""
	style.Options.Separator = " "
	style.Options.PercentFormat = "%3.0f%%"
	style.Options.DoneString, style.Options.ErrorString = "done", "stopped"
	style.Options.TimeInProgressPrecision = time.Second
	style.Options.TimeDonePrecision = 100 * time.Millisecond
	if a.colourful(a.ErrTerminal) {
		style.Colors.Tracker = text.Colors{green}
		style.Colors.Error = text.Colors{yellow}
	}
	return style
}

// set says how many are done.
func (m *meter) set(n int64) {
	n = min(n, m.total)
	switch {
	case m.tracker != nil:
		m.tracker.SetValue(n)
	case time.Since(m.spoken) >= meterSpeaks:
		m.spoken = time.Now()
		fmt.Fprintf(m.app.Err, "%s: %s of %s\n", m.what, count(n), count(m.total))
	}
}

// end takes the bar's last picture: whole if all went well, as it is if not. Only the first call counts.
func (m *meter) end(well bool) {
	switch {
	case m.tracker == nil:
		return
	case well:
		m.set(m.total)
		m.tracker.MarkAsDone()
	default:
		m.tracker.MarkAsErrored()
	}
	<-m.drawn
}
