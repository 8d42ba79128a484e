// SPDX-License-Identifier: Apache-2.0

package felix_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/dataplane/felix"
	"github.com/wayleave/wayleave/dataplane/felix/felixpb"
	"github.com/wayleave/wayleave/policy"
)

// send makes the driver send messages.
func (r *rig) send(dp *felix.Dataplane, list ...*felixpb.FromDataplane) {
	r.t.Helper()
	var q request
	for _, m := range list {
		data, err := proto.Marshal(m)
		require.NoError(r.t, err)
		q.Send = append(q.Send, data)
	}
	_, err := r.query(dp, q)
	require.NoError(r.t, err)
}

func workloadStatus(orchestrator, workload, endpoint, status string) *felixpb.FromDataplane {
	return &felixpb.FromDataplane{Payload: &felixpb.FromDataplane_WorkloadEndpointStatusUpdate{
		WorkloadEndpointStatusUpdate: &felixpb.WorkloadEndpointStatusUpdate{
			Id: &felixpb.WorkloadEndpointID{
				OrchestratorId: orchestrator, WorkloadId: workload, EndpointId: endpoint,
			},
			Status: &felixpb.EndpointStatus{Status: status},
		},
	}}
}

func workloadStatusRemove(name string) *felixpb.FromDataplane {
	return &felixpb.FromDataplane{Payload: &felixpb.FromDataplane_WorkloadEndpointStatusRemove{
		WorkloadEndpointStatusRemove: &felixpb.WorkloadEndpointStatusRemove{
			Id: &felixpb.WorkloadEndpointID{OrchestratorId: "k8s", WorkloadId: "n/" + name, EndpointId: "eth0"},
		},
	}}
}

func hostStatus(id, status string) *felixpb.FromDataplane {
	return &felixpb.FromDataplane{Payload: &felixpb.FromDataplane_HostEndpointStatusUpdate{
		HostEndpointStatusUpdate: &felixpb.HostEndpointStatusUpdate{
			Id: &felixpb.HostEndpointID{EndpointId: id}, Status: &felixpb.EndpointStatus{Status: status},
		},
	}}
}

func hostKey(name string) policy.Key { return policy.Key{Kind: policy.KindHostEndpoint, Name: name} }

// The endpoints of a dataplane.Driver follow the statuses that the driver reports.
func TestStatusOfEndpoints(t *testing.T) {
	r := newRig(t)
	r.set("mode", "silent")
	dp := r.open()
	driver, err := dataplane.NewDriver(dataplane.DriverConfig{
		Dataplanes: []dataplane.Dataplane{dp}, MinBackoff: time.Hour, MaxBackoff: time.Hour,
	})
	require.NoError(t, err)
	run(t, driver.Run)
	s := world("a", "b")
	s.HostEndpoints[hostKey("h")] = &dataplane.HostEndpoint{Interface: "eth0"}
	require.NoError(t, driver.Send(t.Context(), first(s)))
	require.NoError(t, driver.WaitApplied(t.Context()))
	becomes := func(key policy.Key, want dataplane.EndpointState) {
		t.Helper()
		state := func() dataplane.EndpointState {
			return driver.Status().Endpoints[key].State
		}
		require.Eventually(t, func() bool { return state() == want }, waitTimeout, time.Millisecond)
	}
	a, b, h := endpointKey("a"), endpointKey("b"), hostKey("h")
	for _, key := range []policy.Key{a, b, h} {
		becomes(key, dataplane.EndpointPending)
	}
	r.send(dp, workloadStatus("k8s", "n/a", "eth0", "up"), hostStatus("h", "up"))
	becomes(a, dataplane.EndpointUp)
	becomes(h, dataplane.EndpointUp)
	becomes(b, dataplane.EndpointPending)
	require.ErrorContains(t, driver.Status().Endpoints[b].Err, "the driver has not reported its status")
	require.NoError(t, driver.WaitProgrammed(t.Context(), a))
	r.send(dp, workloadStatus("k8s", "n/b", "eth0", "error"), hostStatus("h", "down"))
	becomes(b, dataplane.EndpointFailed)
	becomes(h, dataplane.EndpointFailed)
	require.ErrorContains(t, driver.Status().Endpoints[b].Err, `the driver reports the status "error"`)
	r.send(dp, workloadStatus("k8s", "n/a", "eth0", "down"))
	becomes(a, dataplane.EndpointDown)
	r.send(dp, workloadStatus("k8s", "n/b", "eth0", "up"), workloadStatusRemove("a"), &felixpb.FromDataplane{
		Payload: &felixpb.FromDataplane_HostEndpointStatusRemove{
			HostEndpointStatusRemove: &felixpb.HostEndpointStatusRemove{Id: &felixpb.HostEndpointID{EndpointId: "h"}},
		},
	})
	becomes(b, dataplane.EndpointUp)
	becomes(a, dataplane.EndpointPending)
	becomes(h, dataplane.EndpointPending)
}

// A status stays while the endpoint changes, because the driver reports changes only. Another
// driver has to report it again, and so has one that gets the endpoint again after it was removed.
func TestStatusIsKept(t *testing.T) {
	r := newRig(t)
	r.set("mode", "silent")
	dp := r.open()
	drifts := watch(t, dp)
	<-drifts
	up := workloadStatus("k8s", "n/a", "eth0", "up")
	s := world("a")
	require.True(t, isPending(dp.Apply(t.Context(), first(s))))
	r.send(dp, up)
	<-drifts
	require.NoError(t, dp.Apply(t.Context(), dataplane.Batch{}))
	changed := world("a")
	changed.Endpoints[endpointKey("a")].MAC = "02:00:00:00:00:01"
	require.NoError(t, dp.Apply(t.Context(), batch(s, changed)))
	require.NoError(t, dp.Apply(t.Context(), batch(changed, world())))
	require.True(t, isPending(dp.Apply(t.Context(), batch(world(), changed))))
	r.send(dp, up, workloadStatusRemove("a"), up) // the first one is of the old endpoint
	<-drifts
	require.Empty(t, drifts)
	require.NoError(t, dp.Apply(t.Context(), dataplane.Batch{}))
	kill(t, dp)
	<-drifts
	require.True(t, isPending(retried(t, dp)))
	down := changed.Clone()
	down.Endpoints[endpointKey("a")] = &dataplane.Endpoint{Interface: "if-a", Down: true}
	require.True(t, isPending(dp.Apply(t.Context(), batch(changed, down))))
	r.send(dp, workloadStatus("k8s", "n/a", "eth0", "down"))
	<-drifts
	require.NoError(t, dp.Apply(t.Context(), dataplane.Batch{}), "an endpoint that must be down is down")
}

// Messages about unknown objects, and messages of unknown types, change nothing.
func TestUnknownMessagesChangeNothing(t *testing.T) {
	r := newRig(t)
	r.set("mode", "silent")
	dp := r.open()
	drifts := watch(t, dp)
	<-drifts
	require.True(t, isPending(dp.Apply(t.Context(), first(world("a")))))
	unknown := &felixpb.FromDataplane{}
	unknown.ProtoReflect().SetUnknown([]byte{0xfa, 0x06, 0x01, 'x'}) // field 111, a string
	r.send(dp,
		unknown, &felixpb.FromDataplane{},
		&felixpb.FromDataplane{Payload: &felixpb.FromDataplane_ProcessStatusUpdate{
			ProcessStatusUpdate: &felixpb.ProcessStatusUpdate{IsoTimestamp: "2026-01-02T03:04:05Z", Uptime: 7},
		}},
		&felixpb.FromDataplane{Payload: &felixpb.FromDataplane_WireguardStatusUpdate{}},
		&felixpb.FromDataplane{Payload: &felixpb.FromDataplane_DataplaneInSync{}},
		&felixpb.FromDataplane{Payload: &felixpb.FromDataplane_WorkloadEndpointStatusUpdate{}},
		workloadStatus("k8s", "n/other", "eth0", "up"), workloadStatus("k8s", "n/a", "eth1", "up"),
		workloadStatus("openstack", "n/a", "eth0", "up"), workloadStatus("k8s", "a", "eth0", "up"),
		hostStatus("n/a", "up"), hostStatus("", "up"),
	)
	require.True(t, isPending(dp.Apply(t.Context(), dataplane.Batch{})))
	require.Empty(t, drifts)
	r.send(dp, workloadStatus("k8s", "n/a", "eth0", "up")) // after all others
	<-drifts
	require.NoError(t, dp.Apply(t.Context(), dataplane.Batch{}))
	require.EqualValues(t, 1, dp.Stats().Starts)
}

// By default, an endpoint is programmed once it is sent, unless the driver reports something else.
func TestStatusIsNotNeeded(t *testing.T) {
	r := newRig(t)
	r.set("mode", "silent")
	r.cfg.WaitForStatus = false
	dp := r.open()
	drifts := watch(t, dp)
	<-drifts
	require.NoError(t, dp.Apply(t.Context(), first(world("a"))))
	r.send(dp, workloadStatus("k8s", "n/a", "eth0", "error"))
	<-drifts
	objects, general := dataplane.ApplyErrors(dp.Apply(t.Context(), dataplane.Batch{}))
	require.False(t, general)
	require.Contains(t, objects, endpointKey("a"))
	require.False(t, objects[endpointKey("a")].Pending)
	require.Equal(t, sentState(world("a")).String(), r.dump(dp))
	require.NoError(t, dp.Apply(t.Context(), dptest.Transition(world("a"), world())))
}
