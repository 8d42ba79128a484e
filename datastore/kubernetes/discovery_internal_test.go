// SPDX-License-Identifier: Apache-2.0

package kubernetes

import (
	"bytes"
	"cmp"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
)

// stubDiscovery responds from maps. A version that is not in them is not found.
type stubDiscovery struct {
	discovery.DiscoveryInterface
	resources map[string]string
	errs      map[string]error // of versions; "" is that of the groups
	group     string           // of others; default: g
	others    []string
	requests  int
}

// ServerResourcesForGroupVersion implements discovery.DiscoveryInterface.
func (d *stubDiscovery) ServerResourcesForGroupVersion(version string) (*metav1.APIResourceList, error) {
	d.requests++
	name, ok := d.resources[version]
	switch {
	case d.errs[version] != nil:
		return nil, d.errs[version]
	case !ok:
		return nil, apierrors.NewNotFound(schema.GroupResource{}, version)
	}
	return &metav1.APIResourceList{APIResources: []metav1.APIResource{{Name: name}}}, nil
}

// ServerGroups implements discovery.DiscoveryInterface.
func (d *stubDiscovery) ServerGroups() (*metav1.APIGroupList, error) {
	g := metav1.APIGroup{Name: cmp.Or(d.group, "g")}
	for _, v := range d.others {
		g.Versions = append(g.Versions, metav1.GroupVersionForDiscovery{Version: v})
	}
	return &metav1.APIGroupList{Groups: []metav1.APIGroup{g}}, d.errs[""]
}

// Only a response without an error means that the server does not have the kind. Then all objects
// are removed.
func TestKindIsUnknownWithAnError(t *testing.T) {
	away := apierrors.NewServiceUnavailable("away")
	resource := schema.GroupVersionResource{Group: "g", Version: "v1", Resource: "things"}
	for name, c := range map[string]struct {
		d      *stubDiscovery
		served bool
		err    string
	}{
		"served":             {&stubDiscovery{resources: map[string]string{"g/v1": "things"}}, true, ""},
		"version without it": {&stubDiscovery{resources: map[string]string{"g/v1": "others"}}, false, ""},
		"no version":         {&stubDiscovery{}, false, ""},
		"version away":       {&stubDiscovery{errs: map[string]error{"g/v1": away}}, false, "away"},
		"groups away":        {&stubDiscovery{errs: map[string]error{"": away}}, false, "away"},
		"other version away": {
			&stubDiscovery{others: []string{"v2"}, errs: map[string]error{"g/v2": away}}, false, "away",
		},
		"in another version": {
			&stubDiscovery{others: []string{"v2"}, resources: map[string]string{"g/v2": "things"}},
			false, "only in versions v2",
		},
		"another version without it": {
			&stubDiscovery{others: []string{"v2"}, resources: map[string]string{"g/v2": "x"}}, false, "",
		},
	} {
		v := &discoveryCache{discovery: c.d, maxAge: maxAnswerAge}
		served, err := v.serves(t.Context(), resource, true)
		require.Equal(t, c.served, served, name)
		if c.err == "" {
			require.NoError(t, err, name)
		} else {
			require.ErrorContains(t, err, c.err, name)
		}
	}
}

// A response is used for some seconds.
func TestDiscoveryResponsesAreCached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		resource := schema.GroupVersionResource{Group: "g", Version: "v1", Resource: "things"}
		d := &stubDiscovery{resources: map[string]string{"g/v1": "things"}}
		v := &discoveryCache{discovery: d, maxAge: maxAnswerAge}
		for _, want := range []bool{true, false} {
			for range 3 {
				served, err := v.serves(t.Context(), resource, true)
				require.NoError(t, err)
				require.Equal(t, want, served)
			}
			d.resources["g/v1"] = "others"
			time.Sleep(2 * maxAnswerAge)
		}
		require.Equal(t, 2, d.requests)
	})
}

// lateDiscovery is unavailable for the first requests.
type lateDiscovery struct {
	stubDiscovery
	failures int
}

// ServerResourcesForGroupVersion implements discovery.DiscoveryInterface.
func (d *lateDiscovery) ServerResourcesForGroupVersion(version string) (*metav1.APIResourceList, error) {
	if d.failures--; d.failures >= 0 {
		return nil, apierrors.NewServiceUnavailable("away")
	}
	return d.stubDiscovery.ServerResourcesForGroupVersion(version)
}

// warnings returns what warnOfFormerKinds logs.
func warnings(t *testing.T, d discovery.DiscoveryInterface) string {
	var log bytes.Buffer
	synctest.Test(t, func(t *testing.T) {
		s := &Source{
			cfg:       Config{Logger: slog.New(slog.NewTextHandler(&log, nil))},
			discovery: &discoveryCache{discovery: d},
		}
		s.warnOfFormerKinds(t.Context())
	})
	return log.String()
}

// Kinds that ClusterNetworkPolicy has replaced are reported once the server responds, however long
// it was unavailable.
func TestFormerKindsAreReported(t *testing.T) {
	log := warnings(t, &lateDiscovery{failures: 1_000, stubDiscovery: stubDiscovery{resources: map[string]string{
		"policy.networking.k8s.io/v1alpha1": "baselineadminnetworkpolicies",
	}}})
	require.Equal(t, 1, strings.Count(log, "\n"))
	require.Contains(t, log, "kind=baselineadminnetworkpolicies.policy.networking.k8s.io")
}

// A former kind is also reported if the server has it in another version only.
func TestFormerKindsOfOtherVersion(t *testing.T) {
	log := warnings(t, &stubDiscovery{
		group: "policy.networking.k8s.io", others: []string{"v1alpha2"},
		resources: map[string]string{"policy.networking.k8s.io/v1alpha2": "adminnetworkpolicies"},
	})
	require.Equal(t, 1, strings.Count(log, "\n"))
	require.Contains(t, log, "kind=adminnetworkpolicies.policy.networking.k8s.io")
}

// A server that forbids discovery receives one request for each kind. The log warns that it may
// have policies.
func TestFormerKindsOfForbiddenDiscovery(t *testing.T) {
	d := &stubDiscovery{errs: map[string]error{
		"policy.networking.k8s.io/v1alpha1": apierrors.NewForbidden(schema.GroupResource{}, "", nil),
	}}
	require.Equal(t, 2, strings.Count(warnings(t, d), "may have policies that are not read"))
	require.Equal(t, 2, d.requests)
}
