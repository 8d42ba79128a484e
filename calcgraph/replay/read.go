// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/wayleave/wayleave/calcgraph"
	"github.com/wayleave/wayleave/policy"
)

// Errors that a LineError can wrap.
var (
	// ErrTruncated: the last line has no end, because the process that wrote it died or its disk
	// was full.
	ErrTruncated = errors.New("the line is cut off")
	// ErrTooLong: a line is longer than calcgraph.MaxRecordLine.
	ErrTooLong = fmt.Errorf("the line is longer than %d bytes", calcgraph.MaxRecordLine)
	// ErrNoHeader: the text is not a recording, or is a recording of a version that this package
	// cannot read.
	ErrNoHeader = errors.New("the line is not the header of a recording of version 1")
)

// LineError is the error for a line of a recording that cannot be read.
type LineError struct {
	// Line is the number of the line; the first is 1.
	Line int
	// Err is the reason.
	Err error
}

// Error returns "replay: line N: " and the reason.
func (e *LineError) Error() string { return fmt.Sprintf("replay: line %d: %s", e.Line, e.Err) }

// Unwrap returns the reason.
func (e *LineError) Unwrap() error { return e.Err }

// StepKind is the kind of a Step.
type StepKind uint8

// The kinds of steps.
const (
	// StepUpdate gives an update to the graph.
	StepUpdate StepKind = iota + 1
	// StepInSync marks the end of the initial state.
	StepInSync
	// StepFlush takes a batch from the graph.
	StepFlush
)

// Step is one line of a recording after the header.
type Step struct {
	// Line is the number of the line; the header is line 1.
	Line int
	// Kind is the kind of the step.
	Kind StepKind
	// Update is the update of a step of kind StepUpdate. Its Resource is nil for a deletion and for
	// a rejected object.
	Update policy.Update
	// Rejected is the reason why an object was invalid, or "".
	Rejected string
}

// Recording reads a recording. It buffers some kilobytes, and holds one line at a time in memory.
// It is not safe for concurrent use.
type Recording struct {
	in   *bufio.Reader
	line int
	cfg  calcgraph.Config
}

// Read reads the header of a recording. It returns a *LineError if the first line is not a header
// (ErrNoHeader) or cannot be read.
func Read(r io.Reader) (*Recording, error) {
	rec := &Recording{in: bufio.NewReaderSize(r, 64<<10)}
	data, err := rec.next()
	if errors.Is(err, io.EOF) {
		return nil, &LineError{Line: 1, Err: ErrNoHeader}
	}
	if err != nil {
		return nil, rec.fail(err)
	}
	var header struct {
		Recording string `json:"recording"`
		Version   int    `json:"version"`
		Node      string `json:"node"`
		Names     bool   `json:"names"`

		UnreachableRoutes bool `json:"unreachableRoutes"`
	}
	if err := decode(data, &header); err != nil || header.Recording != "wayleave/calcgraph" ||
		header.Version != calcgraph.RecordVersion || header.Node == "" {
		return nil, rec.fail(ErrNoHeader)
	}
	rec.cfg = calcgraph.Config{
		Node: header.Node, Names: header.Names, UnreachableRoutes: header.UnreachableRoutes,
	}
	return rec, nil
}

// Config returns the configuration of the graph that was recorded, without its hooks.
func (r *Recording) Config() calcgraph.Config { return r.cfg }

// Steps iterates over the remaining steps of the recording: a second call continues after the last
// step of the first. If a line cannot be read, the last item is a zero Step with a *LineError.
func (r *Recording) Steps() iter.Seq2[Step, error] {
	return func(yield func(Step, error) bool) {
		for {
			data, err := r.next()
			if errors.Is(err, io.EOF) {
				return
			}
			var step Step
			if err == nil {
				step, err = parse(data)
			}
			if err != nil {
				yield(Step{}, r.fail(err))
				return
			}
			step.Line = r.line
			if !yield(step, nil) {
				return
			}
		}
	}
}

func (r *Recording) fail(err error) error { return &LineError{Line: r.line, Err: err} }

// next returns the next line without its end, or io.EOF.
func (r *Recording) next() ([]byte, error) {
	r.line++
	var line []byte
	for {
		part, err := r.in.ReadSlice('\n')
		if len(line)+len(bytes.TrimSuffix(part, []byte("\n"))) > calcgraph.MaxRecordLine {
			return nil, ErrTooLong
		}
		line = append(line, part...)
		switch {
		case err == nil:
			return line[:len(line)-1], nil
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF) && len(line) > 0:
			return nil, ErrTruncated
		default:
			return nil, err
		}
	}
}

// parse parses a line after the header. It refuses unknown members.
func parse(data []byte) (Step, error) {
	var line struct {
		Set    json.RawMessage `json:"set"`
		Delete *policy.Key     `json:"delete"`
		Reject *policy.Key     `json:"reject"`
		Error  string          `json:"error"`
		InSync bool            `json:"inSync"`
		Flush  bool            `json:"flush"`
	}
	if err := decode(data, &line); err != nil {
		return Step{}, err
	}
	var steps []Step
	if line.Set != nil {
		resource, err := policy.Decode(line.Set)
		if err != nil {
			return Step{}, err
		}
		steps = append(steps, Step{Kind: StepUpdate, Update: policy.Update{Key: resource.Key(), Resource: resource}})
	}
	if line.Delete != nil {
		steps = append(steps, Step{Kind: StepUpdate, Update: policy.Update{Key: *line.Delete}})
	}
	if line.Reject != nil {
		steps = append(steps, Step{Kind: StepUpdate, Update: policy.Update{Key: *line.Reject}, Rejected: line.Error})
	}
	if line.InSync {
		steps = append(steps, Step{Kind: StepInSync})
	}
	if line.Flush {
		steps = append(steps, Step{Kind: StepFlush})
	}
	if len(steps) != 1 || (line.Error != "") != (line.Reject != nil) {
		return Step{}, errors.New("want exactly one step")
	}
	return steps[0], nil
}

// decode decodes exactly one object without unknown members.
func decode(data []byte, into any) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		return err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("unexpected data after the object")
	}
	return nil
}
