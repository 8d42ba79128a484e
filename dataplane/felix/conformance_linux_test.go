// SPDX-License-Identifier: Apache-2.0

package felix_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/dataplane/dptest/conformance"
	"github.com/wayleave/wayleave/dataplane/felix"
	"github.com/wayleave/wayleave/policy"
)

// A driver behind the pipes keeps the contract, and has the verdicts of policy. Before each new
// Dataplane, the driver is killed.
func TestConformance(t *testing.T) {
	for _, dialect := range dialects() {
		if testing.Short() && dialect != felix.DialectTiers {
			continue
		}
		t.Run(dialect.String(), func(t *testing.T) {
			conformance.Run(t, func(t *testing.T) conformance.Harness { return harness(t, dialect) })
		})
	}
}

func harness(t *testing.T, dialect felix.Dialect) conformance.Harness {
	r := newRig(t)
	r.dialect(dialect)
	h := &conformed{rig: r}
	judge := h.judge
	if testing.Short() {
		judge = nil // each case starts a driver
	}
	return conformance.Harness{
		Open: func(t *testing.T) dataplane.Dataplane {
			if h.Dataplane != nil {
				kill(t, h.Dataplane)
				_ = h.Close()
			}
			h.Dataplane, h.mirror = r.open(), dptest.NewMirror()
			return h
		},
		Dump: func(*testing.T) string { return r.dump(h.Dataplane) },
		Fault: func(t *testing.T) (heal func()) {
			binary, err := os.Readlink(r.cfg.Command[0])
			require.NoError(t, err)
			require.NoError(t, os.Remove(r.cfg.Command[0]))
			return func() { require.NoError(t, os.Symlink(binary, r.cfg.Command[0])) }
		},
		Spoil: func(s dptest.State) policy.Key {
			s.Policies[spoilt()] = &dataplane.Policy{Tier: "default", Ingress: []dataplane.Rule{
				{ID: "b1", Action: policy.Allow, HeaderMatch: policy.HeaderMatch{DSCP: []policy.DSCP{46}}},
			}}
			return spoilt()
		},
		Judge: judge,
	}
}

// few returns n, or a small number in short mode.
func few(n uint64) int {
	if testing.Short() {
		return 2
	}
	return int(n)
}

func spoilt() policy.Key { return policy.Key{Kind: policy.KindPolicy, Namespace: "shop", Name: "bad"} }

// conformed is a Dataplane for the conformance kit. The kit judges packets by rules that Felix does
// not have. Such a rule is a fault of its policy. conformed omits these faults, except the fault of
// the kit's bad object.
type conformed struct {
	*felix.Dataplane
	rig    *rig
	mirror *dptest.Mirror
}

func (c *conformed) Apply(ctx context.Context, b dataplane.Batch) error {
	if err := c.mirror.Apply(ctx, b); err != nil {
		return err
	}
	return c.expected(c.Dataplane.Apply(ctx, b))
}

func (c *conformed) Resync(ctx context.Context) error { return c.expected(c.Dataplane.Resync(ctx)) }

func (c *conformed) expected(err error) error {
	objects, general := dataplane.ApplyErrors(err)
	if general {
		return err
	}
	for key := range withMissing(c.mirror.State()) {
		if key != spoilt() {
			delete(objects, key)
		}
	}
	var rest []error
	for _, e := range objects {
		rest = append(rest, e)
	}
	return errors.Join(rest...)
}

// judge compares the driver's verdict with that of the state with closed rules, which allows no
// more than policy. If it is the same, it returns the verdict of policy.
func (c *conformed) judge(p dptest.Packet) (bool, error) {
	a, err := c.rig.query(c.Dataplane, request{Packet: &p})
	if err != nil {
		return false, err
	}
	state := c.mirror.State()
	want, policy := sentState(state).Judge(p).Allowed(), state.Judge(p).Allowed()
	switch {
	case a.Allowed != want:
		return false, fmt.Errorf("the driver's verdict is %t, want %t", a.Allowed, want)
	case a.Allowed && !policy:
		return false, errors.New("a closed rule allows a packet that policy denies")
	}
	return policy, nil
}
