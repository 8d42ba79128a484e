// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/wayleave/wayleave/examples/agent/internal/cluster"
	"github.com/wayleave/wayleave/examples/agent/internal/health"
	"github.com/wayleave/wayleave/examples/agent/internal/kube"
	"github.com/wayleave/wayleave/examples/agent/internal/pipeline"
)

// errStarting is the answer to requests before the first pipeline has started.
var errStarting = errors.New("the agent is starting: try again in a moment")

// starting returns why there is no pipeline yet.
func (d *Daemon) starting() error {
	if cause := d.stored.unreadable(); cause != nil {
		return fmt.Errorf("the agent is waiting for %s: %w", pipeline.SourceManifests, cause)
	}
	return errStarting
}

// waitingFor returns the names of the sources that have not been read completely, each with its
// cause; "" if there are none.
func (d *Daemon) waitingFor(p *pipeline.Pipeline) string {
	waiting := p.Waiting()
	for i, name := range waiting {
		waiting[i] = d.sourceCause(p, name)
	}
	return strings.Join(waiting, "; ")
}

// unreadable returns why directories cannot be read at the moment, by the name of the source. p is
// nil before the first pipeline.
func (d *Daemon) unreadable(p *pipeline.Pipeline) map[string]string {
	causes := map[string]error{}
	if p != nil {
		causes = p.Unreadable()
	} else if cause := d.stored.unreadable(); cause != nil {
		causes[pipeline.SourceManifests] = cause
	}
	texts := map[string]string{}
	for name, cause := range causes {
		texts[name] = cause.Error()
	}
	return texts
}

// sourceCause returns the name of a source and, if known, why the source has not been read
// completely.
func (d *Daemon) sourceCause(p *pipeline.Pipeline, source string) string {
	if cause := d.unreadable(p)[source]; cause != "" {
		return source + ": " + cause
	}
	if source == cluster.Name && d.cluster != nil {
		if s := d.cluster.State(); s.Error != "" {
			return source + ": " + s.Error
		}
	}
	if source == kube.Name && d.kube != nil {
		if problem := d.kube.Problem(); problem != "" {
			return source + ": " + problem
		}
	}
	return source
}

// sourcesNote returns the sources that cannot be read at the moment but have been read before, each
// with its cause. The agent is still ready, because the objects that were read before stay applied.
func (d *Daemon) sourcesNote() string {
	unreadable := d.unreadable(d.current())
	if d.cluster != nil {
		if s := d.cluster.State(); s.Error != "" {
			unreadable[cluster.Name] = s.Error
		}
	}
	if d.kube != nil && d.kube.Status().InSync {
		if problem := d.kube.Problem(); problem != "" {
			unreadable[kube.Name] = problem
		}
	}
	var notes []string
	for _, name := range slices.Sorted(maps.Keys(unreadable)) {
		notes = append(notes, name+" cannot be read; its last known objects stay applied: "+unreadable[name])
	}
	return strings.Join(notes, "; ")
}

// components returns the parts of the agent that its health depends on.
func (d *Daemon) components() []health.Component {
	with := func(state func(*pipeline.Pipeline) string) func() string {
		return func() string {
			if p := d.current(); p != nil {
				return state(p)
			}
			return d.starting().Error()
		}
	}
	progress := func(read func(*pipeline.Pipeline) (bool, uint64)) func() (bool, uint64) {
		return func() (bool, uint64) {
			if p := d.current(); p != nil {
				return read(p)
			}
			return false, 0
		}
	}
	return []health.Component{
		{Name: "source", Ready: with(func(p *pipeline.Pipeline) string {
			if waiting := d.waitingFor(p); waiting != "" {
				return "has not been read to the end yet: " + waiting
			}
			return ""
		}), Note: d.sourcesNote},
		{Name: "graph", Progress: progress(func(p *pipeline.Pipeline) (bool, uint64) {
			s := p.RunnerStats()
			return s.Pending > 0, s.Flushes + p.Driver().Stats().Attempts // the graph may wait for the driver
		})},
		{
			Name: "driver",
			Ready: with(func(p *pipeline.Pipeline) string {
				s := p.Driver().Status()
				switch disputes := p.Driver().Disputes(); {
				case len(disputes) > 0:
					return disputes[0].String()
				case s.InSync:
					return ""
				case s.LastError != nil:
					return "nothing is in the kernel yet: " + s.LastError.Error()
				}
				return "nothing is in the kernel yet"
			}),
			Progress: progress(func(p *pipeline.Pipeline) (bool, uint64) {
				// A restart of the agent does not help if one object fails and is retried from time
				// to time.
				s := p.Driver().Stats()
				return s.Applying, s.Attempts
			}),
		},
		{Name: "recording", Note: d.recordingNote},
		{Name: "wireguard", Note: d.wireguardNote},
	}
}
