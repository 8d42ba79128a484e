// SPDX-License-Identifier: Apache-2.0

package report_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	clienttesting "k8s.io/client-go/testing"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/datastore/kubernetes/report"
	"github.com/wayleave/wayleave/kubernetes/convert"
	"github.com/wayleave/wayleave/policy"
)

func TestProblemGetsOneEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		r, _ := c.start(t, "n1")
		web, dns := object("NetworkPolicy", "web"), object("NetworkPolicy", "dns")
		far := object("Pod", "far")
		for range 3 {
			r.Problems(web, problem(web, "spec.podSelector", "no such operator", true))
			r.Problems(dns, problem(dns, "spec.ingress[1].ports[0].endPort", "less than port", false))
			r.Problems(far, problem(far, "metadata.labels[x]", "reserved", false))
			wait(time.Minute)
		}
		want := []string{
			"shop NetworkPolicy/dns RuleClosed x1: spec.ingress[1].ports[0].endPort: less than port",
			"shop NetworkPolicy/web Rejected x1: spec.podSelector: no such operator",
			"shop Pod/far FieldIgnored x1: metadata.labels[x]: reserved",
		}
		require.Equal(t, want, c.events(t))
		require.Equal(t, 3, c.writes()["events"])

		list, err := c.client.CoreV1().Events("shop").List(t.Context(), metav1.ListOptions{})
		require.NoError(t, err)
		ofWeb := func(e corev1.Event) bool { return e.InvolvedObject.Name == "web" }
		e := list.Items[slices.IndexFunc(list.Items, ofWeb)]
		require.Equal(t, corev1.ObjectReference{
			APIVersion: "networking.k8s.io/v1", Kind: "NetworkPolicy", Namespace: "shop", Name: "web", UID: "uid-web",
		}, e.InvolvedObject)
		require.Equal(t, corev1.EventSource{Component: "wayleave", Host: "n1"}, e.Source)

		r.Problems(dns, nil)
		r.Problems(dns, problem(dns, "x", "remark", false)[:0])
		r.Problems(web, []error{&convert.Error{Object: web, Field: "spec", Err: convert.ErrIgnored}})
		wait(time.Minute)
		require.Equal(t, want, c.events(t), "neither a cleared problem nor a remark makes an Event")
		require.Zero(t, c.writes()["events"])
		require.Equal(t, 1, r.Stats().Objects)

		r.Problems(web, problem(web, "spec.podSelector", "no such operator", true))
		wait(time.Minute)
		want[1] = strings.Replace(want[1], "x1", "x2", 1)
		require.Equal(t, want, c.events(t), "a problem that occurs again increases the count of its Event")

		require.NoError(t, c.client.CoreV1().Events("shop").Delete(t.Context(), e.Name, metav1.DeleteOptions{}))
		r.Problems(web, nil)
		r.Problems(web, problem(web, "spec.podSelector", "no such operator", true))
		wait(time.Minute)
		want[1] = strings.Replace(want[1], "x2", "x3", 1)
		require.Equal(t, want, c.events(t), "an expired Event is created again")
	})
}

func TestGraphProblemsGetEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(clusterPolicy("gone"), clusterPolicy("deny"))
		r, _ := c.start(t, "n1")
		key := policy.Key{Kind: policy.KindPolicy, Name: "kcnp.deny"}
		r.Doubt(key, &policy.DoubtError{Key: key, Problems: []policy.Problem{{Field: "ingress[0].x", Msg: "unknown"}}})
		absent := policy.Key{Kind: policy.KindPolicy, Namespace: "shop", Name: "knp.default.absent"}
		r.Rejected(absent, errors.New("bad"))
		r.Rejected(policy.Key{Kind: policy.KindBlock, Name: "10-0-0-0-24"}, errors.New("no object has this"))
		wait(time.Minute)
		require.Equal(t, []string{
			"default ClusterNetworkPolicy/deny RuleClosed x1: ingress[0].x: unknown",
		}, c.events(t), "the object of the second does not exist, the third has none")
		list, err := c.client.CoreV1().Events("default").List(t.Context(), metav1.ListOptions{})
		require.NoError(t, err)
		require.EqualValues(t, "uid-deny", list.Items[0].InvolvedObject.UID, "read from the server")

		deny := object("ClusterNetworkPolicy", "deny")
		r.Converted(deny, 1, problem(deny, "spec.ingress[0].x", "unknown", false))
		wait(time.Minute)
		require.Len(t, c.events(t), 2, "the converter's field differs")
		r.Doubt(key, &policy.DoubtError{Key: key, Problems: []policy.Problem{{Field: "ingress[1].x", Msg: "unknown"}}})
		r.Converted(deny, 2, nil) // the graph has not received this version
		wait(time.Minute)
		r.Converted(deny, 3, problem(deny, "spec.ingress[0].x", "unknown", false))
		wait(time.Minute)
		require.Contains(t, c.events(t), "default ClusterNetworkPolicy/deny RuleClosed x2: spec.ingress[0].x: unknown")
		require.Len(t, c.events(t), 2, "version 2 has no doubts")
		_, status := c.nodeReport(t, "n1")
		require.EqualValues(t, 3, status.Faulty)
		r.Deleted(deny)
		r.Rejected(policy.Key{Kind: policy.KindBlock, Name: "10-0-0-0-24"}, nil)
		r.Problems(convert.Object{
			APIVersion: "networking.k8s.io/v1", Kind: "NetworkPolicy", Namespace: "shop", Name: "absent", UID: "new",
		}, nil)
		require.Zero(t, r.Stats().Objects)
		wait(time.Minute)
		require.Len(t, c.events(t), 2)
	})
}

func TestFailedEndpointsGetEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		_, _ = c.start(t, "n2") // it leads
		r, _ := c.start(t, "n1")
		pending := endpoint("web", nil)
		pending.Status.State = dataplane.EndpointPending
		r.Endpoints(func(yield func(dataplane.EndpointChange) bool) {
			for _, change := range []dataplane.EndpointChange{
				endpoint("web", errors.New("nft: no such chain")), endpoint("far", errors.New("of another node")),
				endpoint("gone", errors.New("deleted")), endpoint("fine", nil), pending,
				endpoint("web", errors.New("nft: no such chain")),
			} {
				yield(change)
				wait(time.Minute)
			}
		})
		wait(time.Minute)
		want := []string{"shop Pod/web NotProgrammed x1: nft: no such chain"}
		require.False(t, r.Stats().Leading)
		require.Equal(t, want, c.events(t))
		_, status := c.nodeReport(t, "n1")
		require.EqualValues(t, 4, status.Endpoints)
		require.EqualValues(t, 3, status.Failing)
		require.Equal(t, report.Fault{Key: "Pod shop/web", Reason: "nft: no such chain"}, status.Faults[2])

		r.Problems(object("Pod", "web"), []error{errors.New("not the endpoint's")})
		wait(time.Minute)
		require.Equal(t, want, c.events(t), "only the UID is new")
		for range 2 { // of other drivers
			r.Endpoints(slices.Values([]dataplane.EndpointChange{endpoint("web", errors.New("nft: no such chain"))}))
			wait(time.Minute)
		}
		want[0] = strings.Replace(want[0], "x1", "x3", 1)
		require.Equal(t, want, c.events(t))

		r.Endpoints(slices.Values([]dataplane.EndpointChange{endpoint("web", nil), {
			Key: endpoint("web", nil).Key, Removed: true,
		}}))
		wait(time.Minute)
		require.Equal(t, want, c.events(t))
		_, status = c.nodeReport(t, "n1")
		require.Zero(t, status.Endpoints, "the endpoints of the previous driver are removed")
	})
}

// A node sends 20 Events, then one a second. Objects that are repaired before do not delay the
// others.
func TestEventsAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		r, _ := c.start(t, "n1")
		reject := func(name string, problems ...error) {
			r.Problems(object("NetworkPolicy", name), problems)
		}
		for i := range 10_000 {
			reject(fmt.Sprintf("p%d", i), errors.New("broken"))
		}
		wait(time.Minute)
		count := len(c.events(t))
		require.Greater(t, count, 60)
		require.LessOrEqual(t, count, 20+61)
		_, status := c.nodeReport(t, "n1")
		require.EqualValues(t, 10_000, status.Faulty)
		require.Len(t, status.Faults, report.MaxFaults)
		for i := range 10_000 {
			reject(fmt.Sprintf("p%d", i))
		}
		reject("last", errors.New("broken"))
		wait(5 * time.Second)
		require.Contains(t, c.events(t), "shop NetworkPolicy/last RuleClosed x1: broken")
		require.LessOrEqual(t, len(c.events(t)), count+2)
	})
}

// The Event of a pod of the node does not wait for the Events of other objects.
func TestEventOfPodIsFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		r, _ := c.start(t, "n1")
		for i := range 1_000 {
			r.Problems(object("NetworkPolicy", fmt.Sprintf("p%d", i)), []error{errors.New("broken")})
		}
		r.Endpoints(slices.Values([]dataplane.EndpointChange{endpoint("web", errors.New("nft: no such chain"))}))
		wait(5 * time.Second)
		require.True(t, r.Stats().Leading)
		require.Contains(t, c.events(t), "shop Pod/web NotProgrammed x1: nft: no such chain")
	})
}

// If objects are created and deleted while many others wait, the backlog does not grow, and no
// waiting task is lost.
func TestBacklogIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		r, _ := c.start(t, "n1")
		for i := range 50 {
			r.Problems(object("NetworkPolicy", fmt.Sprintf("stays%d", i)), []error{errors.New("broken")})
		}
		for i := range 20_000 {
			for _, name := range []string{"recreated", fmt.Sprintf("new%d", i)} {
				r.Problems(object("NetworkPolicy", name), []error{errors.New("broken")})
				r.Deleted(object("NetworkPolicy", name))
			}
			require.Less(t, r.Waiting(), 1_300)
		}
		wait(time.Minute)
		require.Len(t, c.events(t), 50)
		require.Zero(t, r.Waiting())
	})
}

// A problem that changes while its Event is sent is not lost.
func TestProblemThatChangesDuringWriteIsSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		var r *report.Reporter
		change := func() { r.Problems(object("NetworkPolicy", "web"), []error{errors.New("second")}) }
		c.client.PrependReactor("create", "events", func(clienttesting.Action) (bool, apiruntime.Object, error) {
			if change != nil {
				change()
				change = nil
			}
			return false, nil, nil
		})
		r, _ = c.start(t, "n1")
		r.Problems(object("NetworkPolicy", "web"), []error{errors.New("first")})
		wait(time.Minute)
		require.Equal(t, []string{
			"shop NetworkPolicy/web RuleClosed x1: first", "shop NetworkPolicy/web RuleClosed x1: second",
		}, c.events(t))
	})
}

// Many different problems of one object are combined.
func TestEventsOfOneObjectAreCombined(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		r, _ := c.start(t, "n1")
		for i := range 1000 {
			r.Problems(object("NetworkPolicy", "web"), []error{fmt.Errorf("broken %d", i)})
			wait(2 * time.Second)
		}
		require.Less(t, len(c.events(t)), 60)
		require.Less(t, c.writes()["events"], 60)
		require.NotZero(t, r.Stats().Suppressed)
	})
}

func TestLongMessagesAndUnusualNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		r, _ := c.start(t, "n1")
		for _, name := range []string{strings.Repeat("a.", 126) + "b", "UPPER_case", "web-", "é\x00", "a/b"} {
			o := object("NetworkPolicy", name)
			r.Problems(o, []error{
				&convert.Error{Object: o, Field: "specs", Err: errors.New(strings.Repeat("€", 2000)), Absent: true},
				errors.New("other\nline"), errors.New("third"),
			})
		}
		o := object("NetworkPolicy", "many")
		r.Problems(o, slices.Repeat([]error{errors.New("\n" + strings.Repeat("x", 99))}, 100))
		wait(time.Minute)
		list, err := c.client.CoreV1().Events("").List(t.Context(), metav1.ListOptions{})
		require.NoError(t, err)
		require.Len(t, list.Items, 6)
		for _, e := range list.Items {
			require.Empty(t, validation.IsDNS1123Subdomain(e.Name), e.Name)
			require.LessOrEqual(t, len(e.Message), 1024)
			require.Greater(t, len(e.Message), 900)
			require.NotContains(t, e.Message, "\n")
			require.Equal(t, strings.ToValidUTF8(e.Message, "?"), e.Message)
			require.Regexp(t, `( \(and 2 more\)| \(and 9\d more\))$`, e.Message)
		}
	})
}

// Events and conditions of deleted objects are not retried.
func TestDeletedObjectsAreNotRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		resource := schema.GroupResource{Resource: "namespaces"}
		failure := c.fail(&failure{verb: "create", resource: "events", err: apierrors.NewNotFound(resource, "shop")})
		r, _ := c.start(t, "n1")
		r.Problems(object("NetworkPolicy", "web"), []error{errors.New("broken")})
		r.Converted(object("ClusterNetworkPolicy", "gone"), 1, nil)
		wait(time.Hour)
		require.Equal(t, 1, failure.failed())
		require.EqualValues(t, 2, r.Stats().Dropped)
		require.Zero(t, r.Stats().Failed)
		require.Empty(t, r.Stats().Errors)
	})
}

// While the server is unavailable, the Reporter sends few requests. Afterwards, all Events and
// conditions are written.
func TestUnavailableServerGetsFewRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(clusterPolicy("deny"))
		away := c.fail(&failure{verb: "*", resource: "*"})
		r, _ := c.start(t, "n1", func(cfg *report.Config) {
			cfg.Revisions = func() map[string]string { return map[string]string{"pods": fmt.Sprint(time.Now().Unix())} }
			cfg.Barrier = noBarrier
		})
		wait(time.Minute)
		c.writes()
		away.set(errors.New("connection refused"))
		r.Ready()
		r.Converted(object("ClusterNetworkPolicy", "deny"), 1, nil)
		for i := range 1000 {
			r.Problems(object("NetworkPolicy", fmt.Sprint("p", i)), []error{errors.New("broken")})
		}
		wait(time.Hour)
		require.Less(t, away.failed(), 900, "at most 360 Events and conditions, 60 of the Node")
		require.Greater(t, away.failed(), 100)
		require.Contains(t, r.Stats().Errors, report.PartNode)
		away.set(nil)
		wait(45 * time.Minute)
		require.Equal(t, 1000, len(c.events(t)))
		require.Equal(t, []string{"Accepted=True Accepted 1: "}, c.conditions(t, "deny"))
		require.Empty(t, r.Stats().Errors)
		require.EqualValues(t, 2, r.Stats().Node)
	})
}
