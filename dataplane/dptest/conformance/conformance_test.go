// SPDX-License-Identifier: Apache-2.0

package conformance_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/dataplane/dptest/conformance"
	"github.com/wayleave/wayleave/policy"
)

// bad is the name of an interface that memory refuses.
const bad = "bad"

var endpointKey = policy.Key{Kind: policy.KindWorkloadEndpoint, Namespace: "n", Name: "w1"}

// kernel has the text of a mirror's state in sync, as memory programs it. foreign is an object of
// another process.
type kernel struct{ text, foreign string }

// memory is a dataplane that keeps the contract: a mirror for the desired state and a kernel.
type memory struct {
	*dptest.Mirror
	kernel *kernel
	broken *bool
}

func (m memory) Apply(ctx context.Context, b dataplane.Batch) error {
	if err := m.Mirror.Apply(ctx, b); err != nil {
		return err
	}
	if *m.broken {
		return errors.New("injected")
	}
	return m.Resync(ctx)
}

// Resync cannot program an endpoint with the interface "bad".
func (m memory) Resync(context.Context) error {
	s := m.State()
	if !s.InSync {
		return nil
	}
	var errs []error
	for key, ep := range s.Endpoints {
		if ep.Interface == bad {
			errs = append(errs, &dataplane.ApplyError{
				Backend: "memory", Op: "add", Object: key, Err: errors.New("bad interface"),
			})
			delete(s.Endpoints, key)
		}
	}
	m.kernel.text = s.String()
	return errors.Join(errs...)
}

func (m memory) Teardown(ctx context.Context) error {
	m.kernel.text = ""
	return m.Mirror.Teardown(ctx)
}

func (m memory) Plan(_ context.Context, b dataplane.Batch) (string, error) { return b.String(), nil }

func harness(*testing.T) conformance.Harness {
	k, broken := &kernel{}, false
	return conformance.Harness{
		Open:   func(*testing.T) dataplane.Dataplane { return memory{dptest.NewMirror(), k, &broken} },
		Dump:   func(*testing.T) string { return k.text },
		Damage: func(*testing.T) { k.text = "damaged" },
		Fault: func(*testing.T) func() {
			broken = true
			return func() { broken = false }
		},
		Spoil: func(s dptest.State) policy.Key {
			s.Endpoints[endpointKey] = &dataplane.Endpoint{Interface: bad}
			return endpointKey
		},
		Foreign: func(t *testing.T) func() {
			k.foreign = "another's"
			return func() { require.Equal(t, "another's", k.foreign) }
		},
	}
}

func TestRunOnMirror(t *testing.T) {
	conformance.Run(t, harness)
}

// A harness needs only Open and Dump.
func TestRunWithoutOptions(t *testing.T) {
	conformance.Run(t, func(t *testing.T) conformance.Harness {
		h := harness(t)
		return conformance.Harness{Open: h.Open, Dump: h.Dump}
	})
}

// withoutIPIP refuses IP-in-IP tunnels, as a kernel without them does.
type withoutIPIP struct{ memory }

func (w withoutIPIP) Apply(ctx context.Context, b dataplane.Batch) error {
	err := w.memory.Apply(ctx, b)
	for k := range w.State().Tunnels {
		if k.Encapsulation == dataplane.EncapIPIP {
			return errors.Join(err, errors.New("no IP in IP"))
		}
	}
	return err
}

func TestRunWithoutIPIP(t *testing.T) {
	conformance.Run(t, func(t *testing.T) conformance.Harness {
		h := harness(t)
		open := h.Open
		h.Open = func(t *testing.T) dataplane.Dataplane { return withoutIPIP{open(t).(memory)} }
		h.NoIPIP = true
		return h
	})
}

// TestRunOnDelayed: an asynchronous dataplane keeps the contract.
func TestRunOnDelayed(t *testing.T) {
	conformance.Run(t, func(t *testing.T) conformance.Harness {
		h := filterHarness(t, "")
		open := h.Open
		h.Open = func(t *testing.T) dataplane.Dataplane { return dptest.NewDelayed(open(t)) }
		h.Damage = nil // Delayed does not watch the inner dataplane
		return h
	})
}

// TestRunOnFaulty checks that Faulty keeps the contract too: after a failed call, it still has the
// desired state.
func TestRunOnFaulty(t *testing.T) {
	conformance.Run(t, func(t *testing.T) conformance.Harness {
		h := harness(t)
		fail := false
		open := h.Open
		var faulty *dptest.Faulty
		h.Open = func(t *testing.T) dataplane.Dataplane {
			faulty = dptest.NewFaulty(open(t), func(c dptest.Call) error {
				if fail && c.Op == "apply" {
					return errors.New("injected")
				}
				return nil
			})
			return faulty
		}
		damage := h.Damage
		h.Damage = func(t *testing.T) {
			damage(t)
			faulty.Drift(dataplane.Drift{Object: "all"})
		}
		h.Fault = func(*testing.T) func() {
			fail = true
			return func() { fail = false }
		}
		return h
	})
}
