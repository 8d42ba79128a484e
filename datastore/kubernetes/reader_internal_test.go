// SPDX-License-Identifier: Apache-2.0

package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
)

// A server that ignores sendInitialEvents never ends the list. It is read in pages, although changes of its objects
// arrive all the time.
func TestStreamWithoutEndFallsBackToPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(true)
		s.ignores = true
		put := func(i int) {
			s.put("namespaces", &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
				Name: "busy", Labels: map[string]string{"n": fmt.Sprint(i)},
			}}, false)
		}
		put(0)
		w := newWorld(t, s, Config{})
		for i := range 12 {
			time.Sleep(10 * time.Second)
			put(i)
		}
		synctest.Wait()
		require.Equal(t, 1, w.receiver.inSyncs)
		w.requireEqual("pages")
	})
}

// An object of the same name and content as an earlier one has a status of its own.
func TestHooksOfAnObjectMadeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const kind = "clusternetworkpolicies.policy.networking.k8s.io"
		s := newServer(true)
		made := func(uid string) *unstructured.Unstructured {
			o := raw("policy.networking.k8s.io/v1alpha2", clusterNetworkPolicy, metav1.ObjectMeta{Name: "p"},
				map[string]any{
					"tier": "Admin", "priority": int64(1), "subject": map[string]any{"namespaces": map[string]any{}},
				})
			o.SetUID(types.UID(uid))
			o.SetGeneration(1)
			return o
		}
		s.put(kind, made("1"), false)
		w := newWorld(t, s, Config{})
		w.settle()
		s.fail(kind, errors.New("away"))
		s.put(kind, made("1"), true)
		s.put(kind, made("2"), false)
		s.compact()
		s.fail(kind, nil)
		w.settle()
		require.Equal(t, []string{"ClusterNetworkPolicy p 1 1 []", "ClusterNetworkPolicy p 2 1 []"}, w.reports)
	})
}

// When ctx is done, no further request of discovery begins: they cannot be cancelled.
func TestDiscoveryEndsWithContext(t *testing.T) {
	for _, missing := range []error{errors.New("timeout"), apierrors.NewNotFound(schema.GroupResource{}, "")} {
		ctx, cancel := context.WithCancel(t.Context())
		d := &slowDiscovery{answer: func() error { cancel(); return missing }}
		v := &versions{discovery: d, maxAge: maxAnswerAge}
		for _, k := range kinds() {
			_, err := v.serves(ctx, k.resource)
			require.Error(t, err)
		}
		require.Equal(t, 1, d.requests)
	}
}

// slowDiscovery is a server's discovery that counts requests.
type slowDiscovery struct {
	discovery.DiscoveryInterface
	requests int
	answer   func() error
}

// ServerResourcesForGroupVersion implements discovery.DiscoveryInterface.
func (d *slowDiscovery) ServerResourcesForGroupVersion(string) (*metav1.APIResourceList, error) {
	d.requests++
	return nil, d.answer()
}

// ServerGroups implements discovery.DiscoveryInterface.
func (d *slowDiscovery) ServerGroups() (*metav1.APIGroupList, error) {
	d.requests++
	return &metav1.APIGroupList{}, nil
}
