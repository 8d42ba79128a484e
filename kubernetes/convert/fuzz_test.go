// SPDX-License-Identifier: Apache-2.0

package convert_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/wayleave/wayleave/kubernetes/convert"
	"github.com/wayleave/wayleave/kubernetes/convert/calico"
	"github.com/wayleave/wayleave/policy"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	policyv1alpha2 "sigs.k8s.io/network-policy-api/apis/v1alpha2"
)

// kinds returns an empty object of every kind.
func kinds() []metav1.Object {
	return []metav1.Object{
		&corev1.Namespace{}, &corev1.ServiceAccount{}, &corev1.Pod{}, &corev1.Node{},
		&corev1.Service{}, &discoveryv1.EndpointSlice{}, &networkingv1.NetworkPolicy{},
		&policyv1alpha2.ClusterNetworkPolicy{}, &calico.GlobalNetworkPolicy{}, &calico.NetworkPolicy{},
		&calico.StagedGlobalNetworkPolicy{}, &calico.StagedNetworkPolicy{}, &calico.StagedKubernetesNetworkPolicy{},
		&calico.Tier{}, &calico.Profile{}, &calico.GlobalNetworkSet{}, &calico.NetworkSet{}, &calico.HostEndpoint{},
		&calico.WorkloadEndpoint{}, &calico.IPPool{}, &calico.Node{},
	}
}

// FuzzConvert decodes any JSON as an object of each kind, without unknown fields, like a client of
// an API server. Every result is valid and canonical, and an object without a result is reported.
func FuzzConvert(f *testing.F) {
	for _, seed := range []string{
		`{"metadata":{"name":"a","namespace":"b","labels":{"c":"d"}}}`,
		`{"metadata":{"name":"a"},"spec":{"nodeName":"n","serviceAccountName":"s",` +
			`"containers":[{"ports":[{"name":"http","containerPort":80}]}]},"status":{"podIPs":[{"ip":"10.0.0.1"}]}}`,
		`{"metadata":{"name":"a","annotations":{"projectcalico.org/IPv4Address":"10.0.0.1/24"}},` +
			`"spec":{"podCIDRs":["10.1.0.0/24"]},"status":{"addresses":[{"type":"InternalIP","address":"10.0.0.1"}]}}`,
		`{"metadata":{"name":"a","labels":{"kubernetes.io/service-name":"s"}},"addressType":"IPv4",` +
			`"endpoints":[{"addresses":["10.0.0.1"],"conditions":{"ready":false,"serving":true}}],` +
			`"ports":[{"port":80},{"protocol":"UDP"}]}`,
		`{"metadata":{"name":"a","labels":{"kubernetes.io/service-name":"s"}},"addressType":"IPv4",` +
			`"endpoints":[{"addresses":["x"]}],"ports":[{}]}`,
		`{"metadata":{"name":"a"},"spec":{"podSelector":{"matchExpressions":[{"key":"a","operator":"NotIn",` +
			`"values":["b"]}]},"ingress":[{"from":[{"ipBlock":{"cidr":"10.0.0.0/8","except":["10.1.0.0/16"]}},` +
			`{}],"ports":[{"port":80,"endPort":90},{"port":"http"}]}],"egress":[{}]}}`,
		`{"metadata":{"name":"a"},"spec":{"tier":"Admin","priority":1,"subject":{"namespaces":{}},` +
			`"ingress":[{"action":"Pass","from":[{"pods":{"podSelector":{"matchLabels":{"a":"b"}}}}],` +
			`"protocols":[{"destinationNamedPort":"http"}]}],"egress":[{"action":"Deny","to":[{}]},` +
			`{"action":"Accept","to":[{"nodes":{}},{"networks":["::/0"]}],` +
			`"protocols":[{"tcp":{"destinationPort":{"range":{"start":1,"end":2}}}}]}]}}`,
		`{"metadata":{"name":"a"},"spec":{"tier":"t","order":1.5,"selector":"all()","types":["ingress"],` +
			`"stagedAction":"Set","applyOnForward":true,"ingress":[{"action":"Allow","protocol":"TCP",` +
			`"source":{"nets":["10.0.0.0/8"],"notSelector":"!has(a)","namespaceSelector":"global()"},` +
			`"destination":{"ports":[80,"90:91","http"],"serviceAccounts":{"selector":"all()"}}}]}}`,
		`{"metadata":{"name":"a"},"spec":{"node":"n","interfaceName":"*","expectedIPs":["10.0.0.1"],` +
			`"ipNetworks":["10.0.0.1/32"],"ipNATs":[{"internalIP":"10.0.0.1","externalIP":"10.0.0.2"}],` +
			`"profiles":["p"],"ports":[{"name":"a","protocol":6,"port":1}],"mac":"66:3e:ca:a4:db:65"}}`,
		`{"metadata":{"name":"a"},"spec":{"cidr":"10.0.0.0/8","vxlanMode":"Always",` +
			`"bgp":{"ipv4Address":"10.0.0.1/24"},"addresses":[{"address":"fd00::1"}],` +
			`"ipv4VXLANTunnelAddr":"10.0.0.3","nets":["10.0.0.0/8"],"labelsToApply":{"a":"b"}}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, object := range kinds() {
			if json.Unmarshal(data, object) != nil {
				continue
			}
			resources, problems := convert.Converter{TrustAnnotations: true, PodCIDRs: true}.Convert(object)
			for _, r := range resources {
				require.NoError(t, r.Validate())
				require.True(t, policy.Equal(r, policy.Canonical(r)))
			}
			for _, problem := range problems {
				var wrong *convert.Error
				require.True(t, errors.As(problem, &wrong))
				require.NotEmpty(t, wrong.Error())
				require.Equal(t, len(resources) == 0, wrong.Absent, "%T", object)
			}
			if _, pod := object.(*corev1.Pod); !pod && len(resources) == 0 {
				require.NotEmpty(t, problems, "%T vanished", object)
			}
		}
	})
}
