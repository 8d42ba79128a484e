// SPDX-License-Identifier: Apache-2.0

package pods_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/wayleave/wayleave/kubernetes/convert"
	"github.com/wayleave/wayleave/kubernetes/pods"
	"github.com/wayleave/wayleave/policy"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func pod(uid string, addresses ...string) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: types.UID(uid)},
		Spec:       corev1.PodSpec{NodeName: "n1"},
	}
	for _, a := range addresses {
		p.Status.PodIPs = append(p.Status.PodIPs, corev1.PodIP{IP: a})
	}
	return p
}

func ref(uid string) pods.Ref { return pods.Ref{Namespace: "shop", Name: "web", UID: types.UID(uid)} }

func attachment(iface, address string) convert.Attachment {
	return convert.Attachment{Interface: iface, Addresses: []netip.Addr{netip.MustParseAddr(address)}}
}

// store has the current endpoint, as interface and addresses.
type store struct {
	*pods.Pods
	now   string
	calls int
}

func newStore(t *testing.T) *store {
	t.Helper()
	s := &store{}
	p, err := pods.New(pods.Config{
		Node: "n1",
		Update: func(u policy.Update) {
			s.calls++
			if s.now = ""; u.Resource != nil {
				e := u.Resource.(*policy.WorkloadEndpoint)
				s.now = fmt.Sprint(e.Interface, e.Addresses)
			}
		},
		Report: func(_ pods.Ref, errs []error) { require.Empty(t, errs) },
	})
	require.NoError(t, err)
	s.Pods = p
	return s
}

// The addresses of the attachment are used until the pod's status has them.
func TestStatusReplacesAddressesOfAttachment(t *testing.T) {
	s := newStore(t)
	s.Set(pod("a"))
	require.Empty(t, s.now, "no address yet")
	require.NoError(t, s.Attach(ref("a"), attachment("veth7", "10.0.0.1")))
	require.Equal(t, "veth7[10.0.0.1]", s.now)
	s.Set(pod("a", "10.0.0.1", "fd00::1"))
	require.Equal(t, "veth7[10.0.0.1 fd00::1]", s.now)
	require.True(t, s.Detach(ref("a")))
	require.Empty(t, s.now, "another pod may get the addresses, although the API still has them")
	s.Set(pod("a", "10.0.0.1", "fd00::1"))
	require.Empty(t, s.now)
	s.Delete("shop", "web")
	require.Equal(t, 4, s.calls, "one at first, and one for each change")
}

// A status without the attachment's addresses is that of an earlier link of the pod. Another pod
// may have its addresses.
func TestStatusOfEarlierLinkIsIgnored(t *testing.T) {
	s := newStore(t)
	s.Set(pod("a", "10.0.0.1", "fd00::1"))
	require.NoError(t, s.Attach(ref("a"), attachment("veth7", "10.0.0.1")))
	require.Equal(t, "veth7[10.0.0.1 fd00::1]", s.now)
	require.True(t, s.Detach(ref("a"))) // the pod's sandbox is recreated with other addresses
	require.Empty(t, s.now)
	link := attachment("veth8", "10.0.0.2")
	link.Addresses = append(link.Addresses, netip.MustParseAddr("fd00::1"))
	require.NoError(t, s.Attach(ref("a"), link))
	require.Equal(t, "veth8[10.0.0.2 fd00::1]", s.now)
	s.Set(pod("a", "fd00::1", "10.0.0.1"))
	require.Equal(t, "veth8[10.0.0.2 fd00::1]", s.now)
	s.Set(pod("a", "fd00::1", "10.0.0.2", "10.0.0.3"))
	require.Equal(t, "veth8[fd00::1 10.0.0.2 10.0.0.3]", s.now)
}

// The interface of an attached pod cannot be attached to another pod, because that would disconnect
// both.
func TestAttachRefusesInterfaceOfAnotherPod(t *testing.T) {
	s := newStore(t)
	s.Set(pod("a"))
	require.NoError(t, s.Attach(ref("a"), attachment("veth7", "10.0.0.1")))
	other := pods.Ref{Namespace: "shop", Name: "db", UID: "d"}
	require.ErrorContains(t, s.Attach(other, attachment("veth7", "10.0.0.2")), "veth7 belongs to pod shop/web")
	require.NoError(t, s.Attach(ref("a"), attachment("veth8", "10.0.0.1")), "another interface of the same pod")
	require.NoError(t, s.Attach(other, attachment("veth7", "10.0.0.2")))
	require.True(t, s.Detach(ref("a")))
	require.NoError(t, s.Attach(other, attachment("veth8", "10.0.0.2")))
}

// The errors of a pod and their end are reported.
func TestErrorsOfPodAreReported(t *testing.T) {
	var reports []string
	p, err := pods.New(pods.Config{
		Node: "n1", Update: func(policy.Update) {},
		Report: func(pod pods.Ref, problems []error) { reports = append(reports, fmt.Sprint(pod, pod.UID, problems)) },
	})
	require.NoError(t, err)
	p.Set(pod("a", "10.0.0.1"))
	p.Set(pod("a", "10.0.0.x"))
	p.Set(pod("a", "10.0.0.1"))
	p.Set(pod("a", "10.0.0.1"))
	require.Len(t, reports, 3)
	require.Equal(t, "shop/weba[]", reports[0], "a pod of another node may have had errors")
	require.Contains(t, reports[1], "shop/weba[Pod shop/web: status.podIPs[0].ip: ")
	require.Equal(t, "shop/weba[]", reports[2])
}

// The errors of a pod of another node end with the next pod of its name, even if that is on this
// node.
func TestErrorsEndWithNextPodOfName(t *testing.T) {
	for _, attached := range []bool{false, true} {
		var last []error
		p, err := pods.New(pods.Config{
			Node: "n1", Update: func(policy.Update) {},
			Report: func(_ pods.Ref, problems []error) { last = problems },
		})
		require.NoError(t, err)
		elsewhere := pod("a", "10.0.0.x")
		elsewhere.Spec.NodeName = "n2"
		p.Set(elsewhere)
		require.Len(t, last, 1)
		if attached {
			require.NoError(t, p.Attach(ref("b"), attachment("veth7", "10.0.0.1")))
		}
		p.Set(pod("b", "10.0.0.1"))
		require.Empty(t, last)
	}
}

// The endpoint of a name depends only on the last state of each source, for random pods of few
// names, UIDs and nodes.
func TestRandomPodsEqualModel(t *testing.T) {
	type state struct {
		api          *corev1.Pod
		attached     bool
		uid          types.UID
		address, has string
	}
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 2))
		names, detached := map[string]*state{"p0": {}, "p1": {}}, map[types.UID]bool{}
		p, err := pods.New(pods.Config{Node: "n1", Update: func(u policy.Update) {
			names[u.Key.Name].has = ""
			if e, ok := u.Resource.(*policy.WorkloadEndpoint); ok {
				names[u.Key.Name].has = fmt.Sprint(e.Node, e.Interface, e.Addresses)
			}
		}})
		require.NoError(t, err)
		for step := range 60 {
			name := fmt.Sprint("p", random.IntN(2))
			s, uid := names[name], types.UID(fmt.Sprint(name, random.IntN(3)))
			r := pods.Ref{Namespace: "shop", Name: name, UID: uid}
			switch random.IntN(6) {
			case 0, 1: // a UID has one node
				s.api = pod(string(uid), fmt.Sprint("10.0.0.", 1+random.IntN(3)))
				s.api.Name = name
				if uid == types.UID(name+"2") {
					s.api.Spec.NodeName = "n2"
				}
				p.Set(s.api)
			case 2:
				s.api = nil
				p.Delete("shop", name)
			case 3:
				s.attached, s.uid, s.address = true, uid, fmt.Sprint("10.0.0.", 1+random.IntN(3))
				require.NoError(t, p.Attach(r, attachment("veth"+name, s.address)))
				delete(detached, uid)
			case 4:
				if s.attached && s.uid == uid {
					s.attached = false
				}
				detached[uid] = true
				require.Equal(t, !s.attached, p.Detach(r))
			case 5: // CNI DEL without a UID
				switch {
				case s.attached:
					s.attached, uid = false, s.uid
				case s.api != nil && s.api.Spec.NodeName == "n1":
					uid = s.api.UID
				default:
					uid = ""
				}
				detached[uid] = uid != ""
				r.UID = ""
				require.True(t, p.Detach(r))
			}
			for name, s := range names {
				want := ""
				switch {
				case s.api == nil:
				case s.api.Spec.NodeName == "n2":
					want = fmt.Sprint("n2", convert.InterfaceName("shop", name), "[", s.api.Status.PodIPs[0].IP, "]")
				case detached[s.api.UID] || s.attached && s.uid != s.api.UID:
				case s.attached && s.address != s.api.Status.PodIPs[0].IP:
					want = fmt.Sprint("n1veth", name, "[", s.address, "]")
				case s.attached:
					want = fmt.Sprint("n1veth", name, "[", s.api.Status.PodIPs[0].IP, "]")
				case slices.ContainsFunc(slices.Collect(maps.Values(names)), func(other *state) bool {
					return other.attached && other.address == s.api.Status.PodIPs[0].IP
				}): // another's
				default:
					want = fmt.Sprint("n1", convert.InterfaceName("shop", name), "[", s.api.Status.PodIPs[0].IP, "]")
				}
				require.Equal(t, want, s.has, "seed %d, step %d: %s", seed, step, name)
			}
		}
	}
}

// An attachment has an endpoint once the API has the pod.
func TestAttachmentWaitsForPod(t *testing.T) {
	s := newStore(t)
	require.NoError(t, s.Attach(ref(""), attachment("veth7", "10.0.0.1")))
	require.Empty(t, s.now)
	s.Set(pod("a"))
	require.Equal(t, "veth7[10.0.0.1]", s.now)
}

// A pod has an endpoint without an attachment.
func TestPodNeedsNoAttachment(t *testing.T) {
	s := newStore(t)
	s.Set(pod("a", "10.0.0.1"))
	require.Equal(t, convert.InterfaceName("shop", "web")+"[10.0.0.1]", s.now)
	s.Delete("shop", "web")
	require.Empty(t, s.now)
}

// An attachment belongs to one UID. The next pod of the name does not get it, and a late Detach of
// the previous pod has no effect.
func TestAttachmentBelongsToOneUID(t *testing.T) {
	s := newStore(t)
	s.Set(pod("a"))
	require.NoError(t, s.Attach(ref("a"), attachment("veth7", "10.0.0.1")))
	s.Delete("shop", "web")
	s.Set(pod("b"))
	require.Empty(t, s.now, "the attachment is another pod's")
	require.NoError(t, s.Attach(ref("b"), attachment("veth8", "10.0.0.2")))
	require.False(t, s.Detach(ref("a")), "b is attached")
	require.Equal(t, "veth8[10.0.0.2]", s.now)
	require.True(t, s.Detach(ref("b")))
	require.Empty(t, s.now)
	require.True(t, s.Detach(ref("b")), "again")
	require.True(t, s.Detach(ref("a")))
	s.Set(pod("c", "10.0.0.3"))
	require.NotEmpty(t, s.now)
}

// A detached pod has no endpoint, in any order of calls by the API and the CNI plugin.
func TestDetachedStaysDetached(t *testing.T) {
	for name, run := range map[string]func(s *store){
		"a late DEL of another pod": func(s *store) {
			s.Set(pod("b", "10.0.0.2"))
			_ = s.Attach(ref("b"), attachment("veth8", "10.0.0.2"))
			s.Detach(ref("b"))
			s.Detach(ref("a"))
		},
		"ADD of the next pod before the API has it": func(s *store) {
			s.Set(pod("a", "10.0.0.1"))
			_ = s.Attach(ref("a"), attachment("veth7", "10.0.0.1"))
			s.Detach(ref("a"))
			_ = s.Attach(ref("b"), attachment("veth8", "10.0.0.2"))
		},
		"a late state of the former pod": func(s *store) {
			_ = s.Attach(ref("b"), attachment("veth8", "10.0.0.2"))
			s.Set(pod("a", "10.0.0.1"))
		},
		"DEL before the API": func(s *store) {
			s.Detach(ref("a"))
			s.Set(pod("a", "10.0.0.1"))
		},
		"DEL without a UID": func(s *store) {
			s.Set(pod("a", "10.0.0.1"))
			s.Detach(ref(""))
			s.Set(pod("a", "10.0.0.1"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStore(t)
			run(s)
			require.Empty(t, s.now)
		})
	}
}

// The next pod of a name may be on another node while the previous one is still attached on this
// node.
func TestPodMovesToAnotherNode(t *testing.T) {
	s := newStore(t)
	s.Set(pod("a"))
	require.NoError(t, s.Attach(ref("a"), attachment("veth7", "10.0.0.1")))
	moved := pod("b", "10.0.1.2")
	moved.Spec.NodeName = "n2"
	s.Set(moved)
	require.Equal(t, convert.InterfaceName("shop", "web")+"[10.0.1.2]", s.now)
	s.Detach(ref("a"))
	require.Equal(t, convert.InterfaceName("shop", "web")+"[10.0.1.2]", s.now)
	s.Set(moved)
	s.Delete("shop", "web")
	require.Empty(t, s.now)
}

// A static pod has another UID in the container runtime than in the API.
func TestStaticPodHasAnotherUIDInRuntime(t *testing.T) {
	s := newStore(t)
	mirror := pod("of the API", "10.0.0.1")
	mirror.Annotations = map[string]string{"kubernetes.io/config.mirror": "static"}
	s.Set(mirror)
	require.NoError(t, s.Attach(ref("static"), attachment("veth7", "10.0.0.1")))
	require.Equal(t, "veth7[10.0.0.1]", s.now)
	require.False(t, s.Detach(ref("of the API")), "the runtime has another UID")
	require.Equal(t, "veth7[10.0.0.1]", s.now)
	require.True(t, s.Detach(ref("static")))
	require.Empty(t, s.now)
	s.Set(mirror)
	require.Empty(t, s.now)
}

// Pods may be used from several goroutines.
func TestConcurrentCallsOfPods(t *testing.T) {
	s := newStore(t)
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for range 200 {
				s.Set(pod("a", fmt.Sprintf("10.0.0.%d", 1+i)))
				_ = s.Attach(ref("a"), attachment("veth7", "10.0.0.9"))
				s.Detach(ref("a"))
				s.Delete("shop", "web")
			}
		})
	}
	wg.Wait()
	require.Empty(t, s.now)
}

func TestAttachRefuses(t *testing.T) {
	s := newStore(t)
	s.Set(pod("a"))
	s.calls = 0
	require.ErrorContains(t, s.Attach(ref("a"), convert.Attachment{}), "interface")
	require.ErrorContains(t, s.Attach(ref("a"), convert.Attachment{Interface: "veth7", MAC: "x"}), "mac")
	require.Zero(t, s.calls)
	_, err := pods.New(pods.Config{Node: "n1"})
	require.ErrorContains(t, err, "Update")
	_, err = pods.New(pods.Config{Update: func(policy.Update) {}})
	require.ErrorContains(t, err, "Node")
}

// The endpoint depends on the last call of each source and not on the order of the sources. Update
// is called once for each change of a pod of this node.
func TestOrderOfSourcesDoesNotMatter(t *testing.T) {
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 1))
		s := newStore(t)
		// The model has the last state of each source. All pods have one UID here.
		var api *corev1.Pod
		attached, detached := "", false
		for range 40 {
			before, calls, known := s.now, s.calls, api != nil && api.Spec.NodeName == "n1"
			switch random.IntN(6) {
			case 0:
				api = pod("a")
				s.Set(api)
			case 1:
				api = pod("a", fmt.Sprintf("10.0.0.%d", 1+random.IntN(3)))
				s.Set(api)
			case 2:
				api = nil
				s.Delete("shop", "web")
			case 3:
				attached, detached = fmt.Sprintf("10.0.0.%d", 1+random.IntN(3)), false
				require.NoError(t, s.Attach(ref("a"), attachment("veth7", attached)))
			case 4:
				attached, detached = "", true
				s.Detach(ref("a"))
			case 5:
				api = pod("a", fmt.Sprintf("10.0.1.%d", 1+random.IntN(3)))
				api.Spec.NodeName = "n2"
				s.Set(api)
				known = false
			}
			elsewhere := api != nil && api.Spec.NodeName == "n2"
			want := ""
			if api != nil && (!detached || elsewhere) {
				address, iface := attached, "veth7"
				if elsewhere {
					address = ""
				}
				if address == "" {
					iface = convert.InterfaceName("shop", "web")
				}
				if address == "" && len(api.Status.PodIPs) > 0 {
					address = api.Status.PodIPs[0].IP
				}
				if address != "" {
					want = iface + "[" + address + "]"
				}
			}
			require.Equal(t, want, s.now, "seed %d", seed)
			if known {
				require.Equal(t, before != s.now, s.calls != calls, "seed %d: one update for each change", seed)
			}
		}
	}
}

// After a restart, Pods has lost the detached pods. A pod without an attachment has no endpoint if
// an attached pod has its address, in any order of calls.
func TestAddressBelongsToAttachedPod(t *testing.T) {
	for _, attachedFirst := range []bool{true, false} {
		now := map[string]bool{}
		p, err := pods.New(pods.Config{Node: "n1", Update: func(u policy.Update) {
			now[u.Key.Name] = u.Resource != nil
		}})
		require.NoError(t, err)
		stale, other := pod("a", "10.0.0.1"), pods.Ref{Namespace: "shop", Name: "db", UID: "d"}
		if !attachedFirst {
			p.Set(stale)
			require.True(t, now["web"])
		}
		require.NoError(t, p.Attach(other, attachment("veth8", "10.0.0.1")))
		if attachedFirst {
			p.Set(stale)
		}
		require.False(t, now["web"])
		db := pod("d")
		db.Name = "db"
		p.Set(db)
		require.True(t, now["db"])
		require.NoError(t, p.Attach(ref("a"), attachment("veth7", "10.0.0.2")))
		require.Equal(t, map[string]bool{"web": true, "db": true}, now)
		require.True(t, p.Detach(other))
		require.Equal(t, map[string]bool{"web": true, "db": false}, now)
	}
}

// The second detachment of a pod renews its record among the last detached pods.
func TestSecondDetachIsRecorded(t *testing.T) {
	s := newStore(t)
	require.True(t, s.Detach(ref("a")))
	for i := range 4000 {
		s.Detach(pods.Ref{Namespace: "shop", Name: "other", UID: types.UID(fmt.Sprint("u", i))})
	}
	require.NoError(t, s.Attach(ref("a"), attachment("veth7", "10.0.0.1")))
	require.True(t, s.Detach(ref("a")))
	for i := range 1000 {
		s.Detach(pods.Ref{Namespace: "shop", Name: "other", UID: types.UID(fmt.Sprint("v", i))})
	}
	s.Set(pod("a", "10.0.0.1"))
	require.Empty(t, s.now)
}
