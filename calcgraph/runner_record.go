// SPDX-License-Identifier: Apache-2.0

package calcgraph

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/wayleave/wayleave/policy"
)

const (
	// RecordVersion is the version of the format of RunnerConfig.Record. The first line of a
	// recording has it.
	RecordVersion = 1
	// MaxRecordLine is the maximum length in bytes of a line of a recording, without the newline.
	// An object with some millions of prefixes fits. If a line would be longer, the recording ends
	// early: see RunnerHooks.RecordFailed.
	MaxRecordLine = 64 << 20
)

// recordHeader is the first line of a recording: the configuration of the graph, without hooks.
type recordHeader struct {
	Recording string `json:"recording"`
	Version   int    `json:"version"`
	Node      string `json:"node"`
	Names     bool   `json:"names,omitempty"`
	// UnreachableRoutes is that of Config.
	UnreachableRoutes bool `json:"unreachableRoutes,omitempty"`
}

// recordReject is the line of an update that the graph processes as a deletion.
type recordReject struct {
	Reject policy.Key `json:"reject"`
	Error  string     `json:"error"`
}

// recordDelete is the line of a deletion.
type recordDelete struct {
	Delete policy.Key `json:"delete"`
}

// recorder records the input of a runner's graph. A nil recorder does nothing.
type recorder struct {
	out    *bufio.Writer
	failed func(error)
	graph  Config
	begun  bool
	err    error
}

func newRecorder(cfg RunnerConfig) *recorder {
	if cfg.Record == nil {
		return nil
	}
	return &recorder{out: bufio.NewWriterSize(cfg.Record, 64<<10), failed: cfg.Hooks.RecordFailed, graph: cfg.Graph.cfg}
}

// round records the updates of one flush, before the graph receives them: so the recording has an
// update that makes the graph panic. An update that would be decoded to another resource is
// replaced, in the slice, by the equal one that is decoded.
func (r *recorder) round(updates []policy.Update, inSync bool) {
	if r == nil || r.err != nil {
		return
	}
	if !r.begun {
		r.begun = true
		r.object(recordHeader{
			Recording: "wayleave/calcgraph", Version: RecordVersion,
			Node: r.graph.Node, Names: r.graph.Names, UnreachableRoutes: r.graph.UnreachableRoutes,
		})
	}
	for i := range updates {
		if r.err == nil {
			r.update(&updates[i])
		}
	}
	if inSync {
		r.line([]byte(`{"inSync":true}`))
	}
	r.line([]byte(`{"flush":true}`))
	if r.err == nil {
		r.err = r.out.Flush()
	}
	if r.err != nil {
		r.err = fmt.Errorf("calcgraph: record: %w", r.err)
		r.out = nil // frees the buffer, too
		if r.failed != nil {
			r.failed(r.err)
		}
	}
}

// update records one update. An invalid resource, which is absent for the graph, may have no JSON
// form, or one that decodes to a valid resource. So it is recorded as rejected. A policy with rules
// in doubt is recorded with these rules closed.
func (r *recorder) update(u *policy.Update) {
	resource, err := u.Admit()
	if resource == nil && err != nil {
		r.object(recordReject{Reject: u.Key, Error: err.Error()})
		return
	}
	if resource == nil {
		r.object(recordDelete{Delete: u.Key})
		return
	}
	data, err := policy.Encode(resource)
	if err != nil {
		r.err = err
		return
	}
	r.line(slices.Concat([]byte(`{"set":`), data, []byte(`}`)))
}

func (r *recorder) object(v any) {
	data, err := json.Marshal(v)
	if err != nil {
		r.err = cmp.Or(r.err, err)
		return
	}
	r.line(data)
}

// line writes one line, unless the recording has failed.
func (r *recorder) line(data []byte) {
	if r.err != nil {
		return
	}
	if len(data) > MaxRecordLine {
		r.err = fmt.Errorf("a line of %d bytes is longer than %d", len(data), MaxRecordLine)
		return
	}
	_, r.err = r.out.Write(append(data, '\n'))
}
