package tree_test

import (
	"math"
	"strconv"
	"time"

	"github.com/coppicehq/coppice/tree"
)

// forest builds nodes from steps: most bytes add a node under the newest or beside it, some give the next node an
// option made of word and number.
func forest(steps []byte, word string, number int64) []*tree.Node {
	var roots, path []*tree.Node
	var options []tree.Option
	for i, step := range steps {
		if option := optionOf(step, word, number, i); option != nil {
			options = append(options, option)
			continue
		}
		if step == 'u' {
			path = path[:max(len(path)-1, 0)]
			continue
		}
		n := tree.New(page{word}, options...)
		options = nil
		switch {
		case len(path) == 0:
			roots = append(roots, n)
		case step == 'r' && len(roots) > 1:
			n = roots[0] // a node that stands somewhere already
			path[len(path)-1].Add(n)
		default:
			path[len(path)-1].Add(n)
		}
		if step%2 == 1 {
			path = append(path, n)
		}
		if step%16 == 3 {
			n.Add()
		}
	}
	return roots
}

func optionOf(step byte, word string, number int64, i int) tree.Option {
	switch step {
	case 'q':
		return tree.Queue(word)
	case 't':
		return tree.Tags(word, strconv.Itoa(i))
	case 'm':
		return tree.Meta(word, word)
	case 'd':
		return tree.Dedup(word + strconv.Itoa(i))
	case 'D':
		return tree.Dedup(word)
	case 'k':
		return tree.Key(word)
	case 'p':
		return tree.Priority(int(number))
	case 'x':
		return tree.MaxAttempts(int(number))
	case 'w':
		return tree.Delay(time.Duration(number))
	case 'y':
		return tree.At(time.UnixMicro(number))
	case 'o':
		return tree.Timeout(time.Duration(number))
	case 'z':
		return tree.WithBackoff(tree.Backoff{Base: time.Duration(number), Factor: math.Float64frombits(uint64(number)), Jitter: float64(number)})
	case 'l':
		return tree.KeepFor(time.Duration(number))
	}
	return nil
}
