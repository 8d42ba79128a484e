// SPDX-License-Identifier: Apache-2.0

package applier

import (
	"errors"
	"fmt"
	"sync"

	"github.com/wayleave/wayleave/dataplane/nft/internal/readback"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// errForm reports that package ruleset cannot represent the table in the kernel.
var errForm = errors.New("the table has unsupported objects")

// desiredState has the desired state, and records whether the kernel has it.
type desiredState struct {
	cfg *Config
	// mu guards changes of State and given. Only the user's goroutine makes these changes, so it
	// reads without mu.
	mu sync.RWMutex
	*ruleset.State
	// given is set once there is a desired state, even an empty one. synced is set while the kernel
	// is known to have all of the desired state, except for the objects in held.
	given, synced bool
	// held has the objects that the kernel refuses.
	held map[Object]*ObjectError
}

func newDesiredState(cfg *Config) *desiredState {
	return &desiredState{
		cfg: cfg, State: ruleset.NewState(cfg.Family, cfg.Name), held: map[Object]*ObjectError{},
	}
}

// reset clears the desired state.
func (s *desiredState) reset() {
	s.mu.Lock()
	s.State, s.given, s.synced = ruleset.NewState(s.cfg.Family, s.cfg.Name), false, false
	s.mu.Unlock()
	clear(s.held)
}

// commitChange applies a change to the desired state.
func (s *desiredState) commitChange(change *ruleset.Change) {
	s.mu.Lock()
	s.Commit(change)
	s.given = true
	s.mu.Unlock()
}

// table returns a copy of the desired state, or nil before there is one.
func (s *desiredState) table() *ruleset.Table {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if !s.given {
		return nil
	}
	return s.Table()
}

// isProgrammed reports whether the kernel is known to have all of the desired state.
func (s *desiredState) isProgrammed() bool { return s.synced && len(s.held) == 0 }

// setProgrammed records that the kernel has all of the desired state.
func (s *desiredState) setProgrammed() {
	s.synced = true
	clear(s.held)
}

// actual returns the state of the kernel's table. d is its difference from the desired state.
func (s *desiredState) actual(d *readback.Difference) (*ruleset.State, error) {
	if d.RebuildReason != "" {
		return ruleset.NewState(s.cfg.Family, s.cfg.Name), nil
	}
	return kernelState(s.State, d)
}

// kernelState returns the state of the kernel's table. d is its difference from the desired state.
//
// Errors: errForm if package ruleset cannot represent the state.
func kernelState(desired *ruleset.State, d *readback.Difference) (*ruleset.State, error) {
	actual := desired.Clone()
	inverse, err := actual.Prepare(&d.Inverse)
	if err != nil {
		return nil, fmt.Errorf("applier: represent table: %w: %w", errForm, err)
	}
	actual.Commit(inverse)
	return actual, nil
}

// checkNoFlowtables returns an error for a table with flowtables: an Applier writes none, and
// deletes those that it finds.
func checkNoFlowtables(t *ruleset.Table) error {
	for _, f := range t.Flowtables {
		if f != nil { // validation refuses nil
			return fmt.Errorf("table %s: flowtable %s: an Applier writes no flowtables", t.Name, f.Name)
		}
	}
	return nil
}

// wanted reports whether the desired state has the object.
func (s *desiredState) wanted(o Object) bool {
	if o.Kind == "chain" {
		return s.Chain(o.Name) != nil
	}
	return s.Set(o.Name) != nil
}
