// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/wayleave/wayleave/datastore"
	"github.com/wayleave/wayleave/examples/agent/internal/cluster"
	"github.com/wayleave/wayleave/examples/agent/internal/settings"
	"github.com/wayleave/wayleave/kubernetes/manifest"
	"github.com/wayleave/wayleave/policy"
)

// stored has the settings objects in the directory of manifests, and those of a shared store. A
// datastore.Dir reads the files. It can send only resources of package policy. Therefore each
// settings object is sent as a network set, whose name is that of the object and whose namespace is
// the file. Only stored receives these sets.
//
// A stored is safe for concurrent use.
type stored struct {
	node    string
	change  func()
	waiting func(cause error) // called when the directory cannot be read at the start
	ready   chan struct{}     // closed once all files have been read

	mu       sync.Mutex
	complete bool                          // all files have been read
	cause    error                         // why the directory cannot be read
	layers   map[policy.Key]settings.Layer // as last read; may contain deleted objects
	present  map[policy.Key]struct{}
	shared   cluster.Layers // settings of the store that nodes share
}

// newStored returns the settings for a node. change is called once all settings have been read, and
// whenever they may have changed.
func newStored(node string, change func(), waiting func(cause error)) *stored {
	return &stored{
		node: node, change: change, waiting: waiting, ready: make(chan struct{}),
		layers: map[policy.Key]settings.Layer{}, present: map[policy.Key]struct{}{},
	}
}

// source returns a source that sends the settings in a directory to s.
func (s *stored) source(path string) (*datastore.Dir, error) {
	return datastore.NewDir(datastore.DirConfig{
		Path: path, Extensions: manifest.Extensions(), Decode: s.decode, Wait: true, Unreadable: s.setUnreadable,
	})
}

func (s *stored) setUnreadable(cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cause = cause
	if cause != nil && !s.complete {
		s.waiting(cause)
	}
}

// unreadable returns why the directory cannot be read; nil if it can.
func (s *stored) unreadable() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cause
}

func (s *stored) decode(file string, data []byte) (carriers []policy.Resource, _ []error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	found, _ := settings.Extract(file, data)
	for _, name := range slices.Sorted(maps.Keys(found)) {
		layer := found[name]
		carrier := &policy.NetworkSet{Namespace: file, Name: name, Labels: maps.Clone(layer.Values)}
		for i, p := range layer.Problems {
			carrier.Labels[fmt.Sprintf("problem %d", i)] = p.Error() // so that a new problem is a change
		}
		s.layers[carrier.Key()] = layer
		carriers = append(carriers, carrier)
	}
	return carriers, nil
}

// share records the settings of the shared store.
func (s *stored) share(shared cluster.Layers) {
	s.mu.Lock()
	s.shared = shared
	s.mu.Unlock()
	s.change()
}

// Update records changes.
func (s *stored) Update(_ context.Context, updates []policy.Update) error {
	s.mu.Lock()
	for _, u := range updates {
		if u.Resource == nil {
			delete(s.present, u.Key)
			delete(s.layers, u.Key)
		} else {
			s.present[u.Key] = struct{}{}
		}
	}
	s.mu.Unlock()
	s.change()
	return nil
}

// InSync records that all files have been read.
func (s *stored) InSync(context.Context) error {
	s.setComplete()
	return nil
}

func (s *stored) setComplete() {
	s.mu.Lock()
	s.complete = true
	s.mu.Unlock()
	s.change()
	close(s.ready)
}

// current returns the layers, and whether all files have been read.
func (s *stored) current() (layers []settings.Layer, complete bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.currentLocked(), s.complete
}

// currentLocked returns the layers for this node, in order of increasing precedence. Layers for all
// nodes come before layers for this node; within each of these, files come before the shared store.
// If several objects in files have the same name, the first is used, and the others are reported as
// problems.
func (s *stored) currentLocked() []settings.Layer {
	var all, own, wrong []settings.Layer
	for _, key := range slices.SortedFunc(maps.Keys(s.present), policy.Key.Compare) {
		l := s.layers[key]
		list := &wrong // the object has an invalid name, or is for another node
		switch key.Name {
		case settings.Global:
			list = &all
		case settings.OfNode(s.node):
			list = &own
		default:
			if len(l.Problems) == 0 || strings.HasPrefix(key.Name, settings.OfNode("")) {
				continue
			}
		}
		if len(*list) > 0 && list != &wrong {
			l.Problems = append(slices.Clip(l.Problems), &settings.Problem{
				Source: l.Source, Err: fmt.Errorf("ignored: %s takes precedence", (*list)[0].Source),
			})
			l.Values = nil
		}
		*list = append(*list, l)
	}
	for i := range wrong {
		wrong[i].Values = nil
	}
	return slices.Concat(all, s.shared.Global, own, s.shared.Node, wrong)
}

// resolve computes the effective settings from all layers, and restarts the pipeline if necessary.
func (d *Daemon) resolve() {
	d.resolving.Lock()
	defer d.resolving.Unlock()
	layers, complete := d.stored.current()
	if !complete {
		return
	}
	effective, err := settings.Resolve(slices.Concat(d.below, layers, d.above)...)
	var problems []string
	if err != nil {
		problems = strings.Split(err.Error(), "\n")
	}
	d.mu.Lock()
	d.problems = problems
	if err != nil {
		d.mu.Unlock()
		d.reportProblems(slog.LevelError,
			"settings are invalid: no change of settings takes effect until all are valid", problems)
		return
	}
	before := d.effective.Settings
	d.effective = effective
	before.LogLevel = effective.LogLevel // a new log level needs no restart
	if before != effective.Settings && d.outdate != nil {
		// End the pipeline at once: a source that has waited for these settings may send its
		// objects next.
		d.outdate()
	}
	d.mu.Unlock()
	d.level.Set(effective.LogLevel)
}

// reportProblems reports problems of settings. The previous settings stay in effect.
func (d *Daemon) reportProblems(level slog.Level, message string, problems []string) {
	for _, problem := range problems {
		d.logger.Log(context.Background(), level, message, "err", problem)
		d.events.publish("settings", "", problem)
	}
}

// reread replaces Config.Below each time that it receives new layers from Config.Reread.
func (d *Daemon) reread(ctx context.Context) error {
	for {
		select {
		case below := <-d.cfg.Reread:
			d.replace(below)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// replace replaces the settings with lower precedence than those of the datastore, if all new ones
// are valid. Settings that cannot change while the agent runs keep their values.
func (d *Daemon) replace(below []settings.Layer) {
	fresh, err := settings.Resolve(slices.Concat(below, d.cfg.Above)...)
	var problems []string
	var pinned []settings.Layer
	level := slog.LevelError
	message := "settings that were read again are invalid: none of them takes effect until all are valid"
	if err == nil {
		level, message = slog.LevelWarn, "a setting takes effect with the next start of the agent"
		d.logger.Info("settings have been read again")
		pinned, err = settings.Pin(d.local, fresh)
		d.resolving.Lock()
		d.below, d.above = below, slices.Concat(d.cfg.Above, pinned)
		d.resolving.Unlock()
	}
	if err != nil {
		problems = strings.Split(err.Error(), "\n")
	}
	d.mu.Lock()
	d.unread = problems
	d.mu.Unlock()
	d.reportProblems(level, message, problems)
	d.resolve()
}
