// SPDX-License-Identifier: Apache-2.0

package conformance_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/dataplane/dptest/conformance"
)

// flawEnv names the flaw of the dataplane that TestFlawed runs the kit on.
const flawEnv = "DPTEST_FLAW"

// flawed is a dataplane that breaks one promise.
type flawed struct {
	memory
	flaw    string
	changed chan struct{} // holds a token for each change
}

// change makes Watch report a drift.
func (f flawed) change() { f.changed <- struct{}{} }

func (f flawed) Watch(ctx context.Context, drifted func(dataplane.Drift)) error {
	switch f.flaw {
	case "reports no drift", "stays pending":
		<-ctx.Done()
	case "leaves a goroutine":
		go func() { select {} }()
	}
	for {
		select {
		case <-ctx.Done():
			if f.flaw == "ends without an error" {
				return nil
			}
			return ctx.Err()
		case <-f.changed:
			drifted(dataplane.Drift{Backend: "memory"})
		}
	}
}

func (f flawed) Apply(ctx context.Context, b dataplane.Batch) error {
	before := f.State()
	if f.flaw == "removes foreign state" {
		f.kernel.foreign = ""
	}
	text := f.kernel.text
	err := f.memory.Apply(ctx, b)
	switch f.flaw {
	case "bad object delays others":
		if err != nil {
			f.kernel.text = text
		}
	case "names no object":
		if err != nil {
			return errors.New("something is wrong")
		}
	case "removes last":
		f.kernel.text = f.removeLast(before)
	case "reports itself":
		f.change()
	case "stays pending":
		if f.State().InSync {
			return &dataplane.ApplyError{Object: endpointKey, Err: errors.New("under way"), Pending: true}
		}
	}
	return err
}

// removeLast returns the state after it has removed the updated endpoints' former interfaces too
// late. In this state, an endpoint that has got one of these interfaces is missing.
func (f flawed) removeLast(before dptest.State) string {
	now := f.State()
	if !now.InSync {
		return f.kernel.text
	}
	for key, old := range before.Endpoints {
		if ep := now.Endpoints[key]; ep != nil && ep.Interface == old.Interface {
			continue
		}
		for key, ep := range now.Endpoints {
			if ep.Interface == old.Interface {
				delete(now.Endpoints, key)
			}
		}
	}
	return now.String()
}

// TestFlawed is for TestRunFindsFlaws: by itself it does nothing.
func TestFlawed(t *testing.T) {
	flaw := os.Getenv(flawEnv)
	if flaw == "" {
		return
	}
	waitTimeout := time.Minute
	if flaw == "reports no drift" || flaw == "leaves a goroutine" || flaw == "stays pending" {
		waitTimeout = 0 // waiting would not help
	}
	conformance.RunFor(t, waitTimeout, func(t *testing.T) conformance.Harness {
		h := harness(t)
		h.Fault = nil
		var last flawed
		open := h.Open
		h.Open = func(t *testing.T) dataplane.Dataplane {
			last = flawed{open(t).(memory), flaw, make(chan struct{}, 1000)}
			return last
		}
		damage := h.Damage
		h.Damage = func(t *testing.T) {
			damage(t)
			last.change()
		}
		return h
	})
}

// Run fails for each dataplane with a flaw, in the check that is meant for it.
func TestRunFindsFlaws(t *testing.T) {
	for flaw, check := range map[string]string{
		"removes foreign state":    "foreign_state",
		"bad object delays others": "bad_object",
		"names no object":          "bad_object",
		"removes last":             "handover",
		"reports no drift":         "watch",
		"reports itself":           "watch",
		"ends without an error":    "watch",
		"leaves a goroutine":       "watch",
		"stays pending":            "idempotent",
		"none":                     "",
	} {
		t.Run(flaw, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestFlawed$")
			cmd.Env = append(os.Environ(), flawEnv+"="+flaw)
			out, err := cmd.CombinedOutput()
			if check == "" {
				require.NoError(t, err, "%s", out)
				return
			}
			require.Error(t, err)
			require.Contains(t, string(out), "--- FAIL: TestFlawed/"+check)
		})
	}
}
