// SPDX-License-Identifier: Apache-2.0

package dataplane_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
)

func TestDriverBackPressure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRigWith(t, dataplane.DriverConfig{MaxQueued: 1}, "policy", "routes")
		defer r.done()
		release := r.hold()
		r.send(world("a")) // returns while Apply runs
		require.Equal(t, dataplane.EndpointStatus{Generation: 1}, r.driver.Status().Endpoints[endpointKey("a")],
			"pending")
		require.True(t, r.driver.Status().Pending)
		r.send(world("a", "b")) // waits in the queue
		require.Equal(t, 1, r.driver.Stats().Queue)
		require.True(t, r.driver.Stats().Applying)

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, r.driver.Send(ctx, dataplane.Batch{}), context.DeadlineExceeded)
		require.ErrorIs(t, r.driver.Send(ctx, dataplane.Batch{}), context.DeadlineExceeded, "the context is done")
		ctx, cancel = context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, r.driver.Resync(ctx), context.DeadlineExceeded)
		require.ErrorIs(t, r.driver.WaitProgrammed(ctx, endpointKey("a")), context.DeadlineExceeded)

		sent := make(chan error, 1)
		go func() { sent <- r.driver.Send(t.Context(), dptest.Transition(world("a", "b"), world("a", "b", "c"))) }()
		synctest.Wait()
		require.Empty(t, sent)
		release()
		require.NoError(t, <-sent)
		require.NoError(t, r.driver.WaitProgrammed(t.Context(), endpointKey("c")))
		require.Equal(t, uint64(3), r.driver.Status().Applied)
		require.Zero(t, r.driver.Stats().Queue)
		require.False(t, r.driver.Stats().Applying)
	})
}

func TestDriverWaitProgrammedWaitsForEarlierBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		defer r.done()
		unknown := make(chan error, 1)
		go func() { unknown <- r.driver.WaitProgrammed(t.Context(), endpointKey("a")) }()
		synctest.Wait()
		require.Empty(t, unknown, "the endpoint was not sent yet")
		r.send(world("a"))
		require.NoError(t, <-unknown)

		release := r.hold()
		w := world("a")
		w.Policies[policyKey("p")] = &dataplane.Policy{Tier: "default"}
		r.send(w) // changes only the endpoint's policy
		waited := make(chan error, 1)
		go func() { waited <- r.driver.WaitProgrammed(t.Context(), endpointKey("a")) }()
		synctest.Wait()
		require.Empty(t, waited, "the policy is not programmed yet")
		release()
		require.NoError(t, <-waited)
	})
}

func TestDriverResync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		defer r.done()
		r.fail("policy", objectError(endpointKey("a")))
		r.send(world("a"))
		r.calls()
		require.ErrorIs(t, r.driver.Resync(t.Context()), errBoom)
		require.Equal(t, []string{"policy resync", "routes resync"}, r.calls())
		r.fail("policy", nil)
		require.NoError(t, r.driver.Resync(t.Context()))
		require.Equal(t, []string{
			"policy resync", "routes resync", "routes apply",
			"  endpoint WorkloadEndpoint/n/a if-a [10.0.0.97] ingress default:deny[Policy/p] egress - profiles []",
		}, r.calls())
		require.Equal(t, dataplane.EndpointUp, r.driver.Status().Endpoints[endpointKey("a")].State)
	})
}

func TestDriverLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.send(world("a"))
		r.calls()
		require.ErrorIs(t, r.driver.Run(t.Context()), dataplane.ErrRunning)
		require.ErrorIs(t, r.driver.Teardown(t.Context()), dataplane.ErrRunning)
		waiting := make(chan error, 1)
		go func() { waiting <- r.driver.WaitProgrammed(context.Background(), endpointKey("b")) }()
		r.done()
		require.ErrorIs(t, <-waiting, dataplane.ErrStopped)
		require.Empty(t, r.calls(), "Run changes nothing at its end")
		require.ErrorIs(t, r.driver.Run(t.Context()), dataplane.ErrStopped)
		require.ErrorIs(t, r.driver.Send(t.Context(), dataplane.Batch{}), dataplane.ErrStopped)
		require.ErrorIs(t, r.driver.Resync(t.Context()), dataplane.ErrStopped)
		require.NoError(t, r.driver.Teardown(t.Context()))
		require.Equal(t, []string{"routes teardown", "policy teardown"}, r.calls())
		require.Empty(t, r.state("policy").Endpoints)
	})
}

func TestDriverHooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var infos []dataplane.AppliedInfo
		d, err := dataplane.NewDriver(dataplane.DriverConfig{
			Dataplanes: []dataplane.Dataplane{dptest.NewFaulty(dptest.NewMirror(), func(c dptest.Call) error {
				time.Sleep(time.Second)
				return map[int]error{1: errBoom}[c.N]
			})},
			Hooks: dataplane.Hooks{Applied: func(i dataplane.AppliedInfo) { infos = append(infos, i) }},
		})
		require.NoError(t, err)
		ctx, stop := context.WithCancel(t.Context())
		ran := make(chan error, 1)
		go func() { ran <- d.Run(ctx) }()
		require.NoError(t, d.Send(t.Context(), dptest.Transition(dptest.NewState(), world("a"))))
		require.NoError(t, d.WaitProgrammed(t.Context(), endpointKey("a")))
		stop()
		require.ErrorIs(t, <-ran, context.Canceled)
		require.Len(t, infos, 2)
		require.ErrorIs(t, infos[0].Err, errBoom)
		require.Equal(t, 3, infos[0].Events)
		require.Equal(t, 1, infos[0].Batches)
		require.Equal(t, dataplane.AppliedInfo{Duration: time.Second}, infos[1])
	})
}

func TestDriverConfig(t *testing.T) {
	for want, cfg := range map[string]dataplane.DriverConfig{
		"Dataplanes: required": {},
		"Dataplanes[1]":        {Dataplanes: []dataplane.Dataplane{dptest.NewMirror(), nil}},
		"MinBackoff and MaxBackoff: 1m0s to 1s": {
			Dataplanes: []dataplane.Dataplane{dptest.NewMirror()}, MinBackoff: time.Minute, MaxBackoff: time.Second,
		},
		"MaxQueued": {Dataplanes: []dataplane.Dataplane{dptest.NewMirror()}, MaxQueued: -1},
		"MinBackoff and MaxBackoff: -1s to": {
			Dataplanes: []dataplane.Dataplane{dptest.NewMirror()}, MinBackoff: -time.Second,
		},
	} {
		_, err := dataplane.NewDriver(cfg)
		require.ErrorContains(t, err, want)
	}
}

// TestDriverRandom sends random worlds while random faults begin and end. The mirrors check that
// every batch is valid. While routes can be removed, every endpoint in routes is in policy; in the
// end both have everything.
func TestDriverRandom(t *testing.T) {
	for seed := range uint64(200) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 0))
			r := newRig(t)
			defer r.done()
			routesFail := seed%2 == 0
			for range 20 {
				r.fail("policy", randomFault(rng))
				if routesFail {
					r.fail("routes", randomFault(rng))
				}
				release := func() {}
				if rng.IntN(3) == 0 {
					release = r.hold()
				}
				for range 1 + rng.IntN(4) {
					r.send(randomWorld(rng))
				}
				release()
				if rng.IntN(2) == 0 {
					time.Sleep(time.Duration(rng.IntN(int(time.Second))))
				}
				for k := range r.state("routes").Endpoints {
					require.True(t, routesFail || r.state("policy").Endpoints[k] != nil, "seed %d: %s", seed, k)
				}
			}
			r.fail("policy", nil)
			r.fail("routes", nil)
			time.Sleep(time.Minute)
			status := r.driver.Status()
			require.NoError(t, status.LastError, "seed %d", seed)
			require.False(t, status.Pending, "seed %d", seed)
			for _, name := range r.names {
				require.Equal(t, r.sent.String(), r.state(name).String(), "seed %d %s", seed, name)
			}
			for k, s := range status.Endpoints {
				require.Equal(t, dataplane.EndpointUp, s.State, "seed %d %s", seed, k)
			}
		})
	}
}

func randomWorld(rng *rand.Rand) dptest.State {
	s := world()
	for i := range 4 {
		addPolicy(s, "p"+strconv.Itoa(i))
		if rng.IntN(3) > 0 {
			addEndpoint(s, string(rune('a'+i)), "p"+strconv.Itoa(rng.IntN(i+1)), "if"+strconv.Itoa(rng.IntN(3)))
		}
	}
	if rng.IntN(2) == 0 {
		host := addHost(s).HostEndpoints[hostKey]
		host.Interface = "eth" + strconv.Itoa(rng.IntN(2))
		host.Ingress[0].Policies[0] = policyKey("p" + strconv.Itoa(rng.IntN(4)))
	}
	used := map[string]bool{}
	for _, e := range s.Endpoints {
		used[e.Ingress[0].Policies[0].Name] = true
	}
	for _, h := range s.HostEndpoints {
		used[h.Ingress[0].Policies[0].Name] = true
	}
	for k := range s.Policies {
		if !used[k.Name] {
			delete(s.Policies, k)
		}
	}
	return s
}

func randomFault(rng *rand.Rand) error {
	switch rng.IntN(6) {
	case 0:
		return errBoom
	case 3:
		return objectError(hostKey)
	case 1:
		return errors.Join(objectError(endpointKey("a")), objectError(endpointKey("c")))
	case 2:
		return objectError(policyKey("p" + strconv.Itoa(rng.IntN(4))))
	default:
		return nil
	}
}
