// SPDX-License-Identifier: Apache-2.0

package dataplane_test

import (
	"context"
	"errors"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/policy"
)

var errBoom = errors.New("boom")

// rig is a driver over two strict mirrors, "policy" and "routes", whose calls are logged and can
// fail. It runs in a synctest bubble, which also proves that no goroutine is left.
type rig struct {
	t      *testing.T
	driver *dataplane.Driver
	stop   context.CancelFunc
	sent   dptest.State
	names  []string
	mirror map[string]*dptest.Mirror
	faulty map[string]*dptest.Faulty

	mu    sync.Mutex
	log   []string
	times []time.Time
	fault map[string]error
	gate  chan struct{} // if not nil, Apply waits for it
}

func newRig(t *testing.T) *rig { return newRigOf(t, "policy", "routes") }

func newRigOf(t *testing.T, names ...string) *rig {
	return newRigWith(t, dataplane.DriverConfig{}, names...)
}

func newRigWith(t *testing.T, cfg dataplane.DriverConfig, names ...string) *rig {
	r := &rig{
		t: t, sent: dptest.NewState(), fault: map[string]error{}, names: names,
		mirror: map[string]*dptest.Mirror{}, faulty: map[string]*dptest.Faulty{},
	}
	for _, name := range r.names {
		r.mirror[name] = dptest.NewMirror()
		r.faulty[name] = dptest.NewFaulty(r.mirror[name], func(c dptest.Call) error { return r.called(name, c) })
		cfg.Dataplanes = append(cfg.Dataplanes, r.faulty[name])
	}
	var err error
	r.driver, err = dataplane.NewDriver(cfg)
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.Background())
	r.stop = stop
	go func() { _ = r.driver.Run(ctx) }()
	t.Cleanup(stop)
	return r
}

func (r *rig) called(name string, c dptest.Call) error {
	r.mu.Lock()
	gate := r.gate
	r.log = append(r.log, name+" "+c.Op)
	for _, e := range c.Batch.Events {
		r.log = append(r.log, "  "+e.String())
	}
	r.times = append(r.times, time.Now())
	err := r.fault[name]
	r.mu.Unlock()
	if gate != nil {
		<-gate
	}
	return err
}

// hold makes calls of Apply and Resync wait until the returned function is called.
func (r *rig) hold() (release func()) {
	gate := make(chan struct{})
	r.mu.Lock()
	defer r.mu.Unlock()
	r.gate = gate
	return func() {
		r.mu.Lock()
		if r.gate == gate {
			r.gate = nil
		}
		r.mu.Unlock()
		close(gate)
		synctest.Wait()
	}
}

// fail makes calls of the dataplane fail; a nil error ends that.
func (r *rig) fail(name string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fault[name] = err
}

// send sends the batch that leads to the state, and waits until all goroutines are idle.
func (r *rig) send(to dptest.State) {
	r.t.Helper()
	b := dptest.Transition(r.sent, to)
	r.sent = to.Clone()
	require.NoError(r.t, r.driver.Send(r.t.Context(), b))
	synctest.Wait()
}

// calls returns the log since the last call.
func (r *rig) calls() []string {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	log := r.log
	r.log, r.times = nil, nil
	return log
}

func (r *rig) state(name string) dptest.State { return r.mirror[name].State() }

func (r *rig) done() {
	r.stop()
	synctest.Wait()
}

func endpointKey(name string) policy.Key {
	return policy.Key{Kind: policy.KindWorkloadEndpoint, Namespace: "n", Name: name}
}

func policyKey(name string) policy.Key { return policy.Key{Kind: policy.KindPolicy, Name: name} }

func objectError(k policy.Key) error {
	return &dataplane.ApplyError{Backend: "x", Op: "add", Object: k, Err: errBoom}
}

// world returns a state in sync with one policy "p" and endpoints under it.
func world(endpoints ...string) dptest.State {
	s := dptest.NewState()
	s.InSync = true
	addPolicy(s, "p")
	for _, name := range endpoints {
		addEndpoint(s, name, "p", "if-"+name)
	}
	return s
}

func addPolicy(s dptest.State, name string) {
	s.Policies[policyKey(name)] = &dataplane.Policy{Tier: "default", Ingress: []dataplane.Rule{{Action: policy.Allow}}}
}

func addEndpoint(s dptest.State, name, pol, iface string) {
	s.Endpoints[endpointKey(name)] = &dataplane.Endpoint{
		Interface: iface,
		Addresses: []netip.Addr{netip.AddrFrom4([4]byte{10, 0, 0, name[0]})},
		Ingress: []dataplane.TierPolicies{
			{Tier: "default", DefaultAction: policy.Deny, Policies: []policy.Key{policyKey(pol)}},
		},
	}
}

func TestDriverOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		defer r.done()
		r.send(world("a"))
		events := []string{
			"  policy Policy/p tier default: ingress allow",
			"  endpoint WorkloadEndpoint/n/a if-a [10.0.0.97] ingress default:deny[Policy/p] egress - profiles []",
			"  in-sync",
		}
		require.Equal(t, append(append([]string{"policy apply"}, events...),
			append([]string{"routes apply"}, events...)...), r.calls())

		none := world()
		delete(none.Policies, policyKey("p"))
		r.send(none)
		require.Equal(t, []string{ // the route is removed before the policy
			"routes apply", "  remove endpoint WorkloadEndpoint/n/a",
			"policy apply", "  remove endpoint WorkloadEndpoint/n/a", "  remove policy Policy/p",
			"routes apply", "  remove policy Policy/p",
		}, r.calls())
	})
}

func TestDriverFailingEndpointDoesNotHoldOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		defer r.done()
		r.fail("policy", errors.Join(objectError(endpointKey("a"))))
		r.send(world("a", "b"))
		require.NotContains(t, r.state("routes").Endpoints, endpointKey("a"), "a route without policy")
		require.Contains(t, r.state("routes").Endpoints, endpointKey("b"))
		status := r.driver.Status()
		require.True(t, status.InSync)
		require.True(t, status.Pending)
		require.Equal(t, dataplane.EndpointFailed, status.Endpoints[endpointKey("a")].State)
		require.ErrorIs(t, status.Endpoints[endpointKey("a")].Err, errBoom)
		require.Equal(t, dataplane.EndpointStatus{State: dataplane.EndpointUp, Generation: 1},
			status.Endpoints[endpointKey("b")])
		require.NoError(t, r.driver.WaitProgrammed(t.Context(), endpointKey("b")))

		programmed := make(chan error, 1)
		go func() { programmed <- r.driver.WaitProgrammed(t.Context(), endpointKey("a")) }()
		synctest.Wait()
		require.Empty(t, programmed)
		r.calls()
		r.fail("policy", nil)
		require.NoError(t, <-programmed) // time moves to the retry
		require.Equal(t, []string{
			"policy apply", "routes apply",
			"  endpoint WorkloadEndpoint/n/a if-a [10.0.0.97] ingress default:deny[Policy/p] egress - profiles []",
		}, r.calls())
		status = r.driver.Status()
		require.False(t, status.Pending)
		require.NoError(t, status.LastError)
		require.Zero(t, status.Failures)
	})
}

func TestDriverPolicyAtFaultWithholdsItsEndpoints(t *testing.T) {
	for _, at := range []policy.Key{policyKey("q"), {Kind: policy.KindProfile, Name: "prof"}} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t)
			defer r.done()
			w := world("a", "b")
			addPolicy(w, "q")
			addEndpoint(w, "c", "q", "if-c")
			w.Profiles["prof"] = &dataplane.Profile{}
			w.Endpoints[endpointKey("c")].Profiles = []string{"prof"}
			r.fail("policy", objectError(at))
			r.send(w)
			require.Len(t, r.state("routes").Endpoints, 2)
			require.NotContains(t, r.state("routes").Endpoints, endpointKey("c"))
			require.Equal(t, dataplane.EndpointFailed, r.driver.Status().Endpoints[endpointKey("c")].State)
		})
	}
}

func TestDriverWithheldAndRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		defer r.done()
		r.fail("policy", objectError(endpointKey("a")))
		r.send(world("a"))
		r.calls()
		r.fail("policy", nil)
		r.send(world())
		require.Equal(t, []string{"policy apply", "  remove endpoint WorkloadEndpoint/n/a"}, r.calls(),
			"routes never received it")
	})
}

func TestDriverWithheldUpdateKeepsLink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		defer r.done()
		r.send(world("a"))
		next := world()
		addPolicy(next, "q")
		delete(next.Policies, policyKey("p"))
		addEndpoint(next, "a", "q", "moved")
		r.fail("policy", objectError(endpointKey("a")))
		r.send(next)
		routes := r.state("routes")
		require.Equal(t, "if-a", routes.Endpoints[endpointKey("a")].Interface)
		require.NotContains(t, routes.Policies, policyKey("p"))

		r.fail("policy", nil)
		require.NoError(t, r.driver.WaitProgrammed(t.Context(), endpointKey("a")))
		require.Equal(t, next.String(), r.state("routes").String())
	})
}

func TestDriverGeneralFailure(t *testing.T) {
	for name, fault := range map[string]error{
		"no object":      &dataplane.ApplyError{Backend: "x", Op: "commit", Err: errBoom},
		"plain":          errBoom,
		"unknown object": objectError(policy.Key{Kind: "Whatever", Name: "w"}),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				defer r.done()
				r.fail("policy", fault)
				r.send(world("a"))
				require.Equal(t, []string{
					"policy apply", "  policy Policy/p tier default: ingress allow",
					"  endpoint WorkloadEndpoint/n/a if-a [10.0.0.97] ingress default:deny[Policy/p] egress " +
						"- profiles []", "  in-sync",
					"routes apply", "  policy Policy/p tier default: ingress allow",
				}, r.calls(), "no endpoint, and nothing is swept")
				require.False(t, r.driver.Status().InSync)
				require.Equal(t, dataplane.EndpointFailed, r.driver.Status().Endpoints[endpointKey("a")].State)

				r.fail("policy", nil)
				require.NoError(t, r.driver.WaitProgrammed(t.Context(), endpointKey("a")))
				require.Equal(t, world("a").String(), r.state("routes").String())
				require.True(t, r.driver.Status().InSync)
			})
		})
	}
}

func TestDriverBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		defer r.done()
		r.fail("policy", objectError(endpointKey("a")))
		r.send(world("a"))
		time.Sleep(3 * time.Minute) // of the bubble
		r.mu.Lock()
		times := r.times
		r.mu.Unlock()
		policyTimes := times[1:] // without the one call of routes, at the same time as the first
		limit := 100 * time.Millisecond
		for i := 1; i < len(policyTimes); i++ {
			wait := policyTimes[i].Sub(policyTimes[i-1])
			require.LessOrEqual(t, wait, limit, "retry %d", i)
			require.GreaterOrEqual(t, wait, limit/2, "retry %d", i)
			limit = min(2*limit, 30*time.Second)
		}
		require.Greater(t, len(policyTimes), 9)
		require.Equal(t, len(policyTimes), r.driver.Status().Failures)

		// A new fault is retried soon, also beside a lasting one. Batches are applied at once.
		r.calls()
		r.fail("policy", errors.Join(objectError(endpointKey("a")), objectError(endpointKey("b"))))
		r.send(world("a", "b"))
		require.Equal(t, "policy apply", r.calls()[0])
		start := time.Now()
		r.fail("policy", nil)
		require.NoError(t, r.driver.WaitProgrammed(t.Context(), endpointKey("b")))
		require.LessOrEqual(t, time.Since(start), 100*time.Millisecond)
	})
}

func TestDriverRoutesFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		defer r.done()
		r.fail("routes", objectError(endpointKey("a")))
		r.send(world("a"))
		require.Equal(t, dataplane.EndpointFailed, r.driver.Status().Endpoints[endpointKey("a")].State)
		r.calls()
		r.fail("routes", nil)
		require.NoError(t, r.driver.WaitProgrammed(t.Context(), endpointKey("a")))
		require.Equal(t, []string{"routes apply"}, r.calls(), "policy has nothing to retry")

		r.fail("routes", errBoom) // on removal: reported, and retried
		r.send(world())
		require.Error(t, r.driver.Status().LastError)
		require.Contains(t, r.state("routes").Endpoints, endpointKey("a"))
		r.fail("routes", nil)
		time.Sleep(time.Second)
		require.NoError(t, r.driver.Status().LastError)
		require.Equal(t, world().String(), r.state("routes").String())
	})
}

// The route to another node is at fault: the fault is reported and retried, and delays no endpoint
// of this node.
func TestDriverFaultOfNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		defer r.done()
		r.fail("routes", objectError(policy.Key{Kind: policy.KindNode, Name: "far"}))
		r.send(world("a"))
		require.NoError(t, r.driver.WaitProgrammed(t.Context(), endpointKey("a")))
		status := r.driver.Status()
		require.Equal(t, dataplane.EndpointUp, status.Endpoints[endpointKey("a")].State)
		require.True(t, status.InSync)
		require.ErrorIs(t, status.LastError, errBoom)
		r.calls()
		r.fail("routes", nil)
		time.Sleep(time.Second)
		require.Equal(t, []string{"routes apply"}, r.calls())
		require.NoError(t, r.driver.Status().LastError)
	})
}
