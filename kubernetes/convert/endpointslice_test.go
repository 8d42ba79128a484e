// SPDX-License-Identifier: Apache-2.0

package convert_test

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/wayleave/wayleave/kubernetes/convert"
	"github.com/wayleave/wayleave/kubernetes/manifest"
	"github.com/wayleave/wayleave/policy"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func testSlice() *discoveryv1.EndpointSlice {
	endpoint := func(ready, serving *bool, addresses ...string) discoveryv1.Endpoint {
		return discoveryv1.Endpoint{
			Addresses: addresses, Conditions: discoveryv1.EndpointConditions{Ready: ready, Serving: serving},
		}
	}
	return &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: "web-x", Labels: map[string]string{"kubernetes.io/service-name": "web"}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints: []discoveryv1.Endpoint{
			endpoint(nil, nil, "10.0.0.1"),
			endpoint(ptr(true), nil, "10.0.0.2", "10.0.0.1"),
			endpoint(ptr(false), nil, "10.0.0.3"),
			endpoint(ptr(false), ptr(false), "10.0.0.4"),
			endpoint(ptr(false), ptr(true), "10.0.0.5"), // about to end
		},
		Ports: []discoveryv1.EndpointPort{
			{Name: ptr("http"), Port: ptr(int32(80))},
			{Name: ptr("dns"), Port: ptr(int32(53)), Protocol: ptr(corev1.ProtocolUDP)},
			{Name: ptr("also"), Port: ptr(int32(80)), Protocol: ptr(corev1.ProtocolTCP)},
		},
	}
}

func TestEndpointSlice(t *testing.T) {
	tests := []struct {
		name   string
		change func(*discoveryv1.EndpointSlice)
		want   func(*policy.ServiceBackends)
		wrong  string
	}{
		{"as it is", func(*discoveryv1.EndpointSlice) {}, func(*policy.ServiceBackends) {}, ""},
		{
			"IPv6", func(s *discoveryv1.EndpointSlice) {
				s.AddressType, s.Endpoints = "IPv6", []discoveryv1.Endpoint{{Addresses: []string{"fd00::1"}}}
			},
			func(b *policy.ServiceBackends) { b.Addresses = []netip.Addr{addr("fd00::1")} }, "",
		},
		{
			"no ports", func(s *discoveryv1.EndpointSlice) { s.Ports = nil },
			func(b *policy.ServiceBackends) { b.Ports = nil }, "",
		},
		{
			"no endpoints", func(s *discoveryv1.EndpointSlice) { s.Endpoints = nil },
			func(b *policy.ServiceBackends) { b.Addresses = nil }, "",
		},
		{
			"a port without a number", func(s *discoveryv1.EndpointSlice) { s.Ports[1].Port = nil },
			func(b *policy.ServiceBackends) { b.Ports = b.Ports[:1] }, "ports[1].port",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			slice := testSlice()
			tt.change(slice)
			want := &policy.ServiceBackends{
				Namespace: "default", Name: "web-x", Service: "web",
				Addresses: []netip.Addr{addr("10.0.0.1"), addr("10.0.0.2"), addr("10.0.0.5")},
				Ports: []policy.ServicePort{
					{Protocol: policy.ProtocolTCP, Port: 80}, {Protocol: policy.ProtocolUDP, Port: 53},
				},
			}
			tt.want(want)
			backends, problems := convert.Converter{}.EndpointSlice(slice)
			require.True(t, policy.Equal(want, backends), "%+v", backends)
			if tt.wrong == "" {
				require.Empty(t, problems)
				return
			}
			require.Len(t, problems, 1)
			require.ErrorIs(t, problems[0], convert.ErrNotSupported)
			require.ErrorContains(t, problems[0], tt.wrong)
		})
	}
}

func TestInvalidEndpointSliceIsAbsent(t *testing.T) {
	tests := []struct {
		field  string
		change func(*discoveryv1.EndpointSlice)
		is     error
	}{
		{
			`metadata.labels["kubernetes.io/service-name"]`, func(s *discoveryv1.EndpointSlice) { s.Labels = nil },
			convert.ErrIgnored,
		},
		{"addressType", func(s *discoveryv1.EndpointSlice) { s.AddressType = "FQDN" }, convert.ErrNotSupported},
		{"addressType", func(s *discoveryv1.EndpointSlice) { s.AddressType = "" }, nil},
		{"metadata.name", func(s *discoveryv1.EndpointSlice) { s.Name = "" }, nil},
		{
			`metadata.labels["kubernetes.io/service-name"]`,
			func(s *discoveryv1.EndpointSlice) { s.Labels["kubernetes.io/service-name"] = "a b" }, nil,
		},
		{"endpoints[1].addresses[1]", func(s *discoveryv1.EndpointSlice) { s.Endpoints[1].Addresses[1] = "x" }, nil},
		{
			"endpoints[3].addresses[0]", func(s *discoveryv1.EndpointSlice) { s.Endpoints[3].Addresses[0] = "fd00::1" },
			nil,
		},
		{
			"endpoints[*].addresses[0]",
			func(s *discoveryv1.EndpointSlice) { s.Endpoints[0].Addresses[0] = "127.0.0.1" }, nil,
		},
		{"ports[0].port", func(s *discoveryv1.EndpointSlice) { s.Ports[0].Port = ptr(int32(0)) }, nil},
		{
			"ports[0].protocol",
			func(s *discoveryv1.EndpointSlice) { s.Ports[0].Protocol = ptr(corev1.Protocol("ICMP")) }, nil,
		},
	}
	for _, tt := range tests {
		t.Run(tt.field, func(t *testing.T) {
			slice := testSlice()
			tt.change(slice)
			resources, problems := convert.Converter{}.Convert(slice)
			require.Empty(t, resources)
			require.Len(t, problems, 1)
			var wrong *convert.Error
			require.ErrorAs(t, problems[0], &wrong)
			require.Equal(t, tt.field, wrong.Field)
			if tt.is != nil {
				require.ErrorIs(t, problems[0], tt.is)
			}
		})
	}
}

// A port without a number is left out. If the slice is also invalid for another reason, the whole
// slice is absent.
func TestProblemsOfInvalidEndpointSliceAreAbsent(t *testing.T) {
	slice := testSlice()
	slice.Ports[1].Port = nil
	slice.Endpoints[0].Addresses[0] = "x"
	resources, problems := convert.Converter{}.Convert(slice)
	require.Empty(t, resources)
	require.Len(t, problems, 2)
	for _, problem := range problems {
		var wrong *convert.Error
		require.ErrorAs(t, problem, &wrong)
		require.True(t, wrong.Absent, wrong)
	}
}

// A Service has no resource, and its error is ErrIgnored. An invalid Service has another error.
func TestServiceIsIgnored(t *testing.T) {
	resources, problems := convert.Converter{}.Convert(&corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"},
	})
	require.Empty(t, resources)
	require.Len(t, problems, 1)
	require.ErrorIs(t, problems[0], convert.ErrIgnored)
	require.EqualError(t, problems[0],
		"Service shop/web: ignored: the EndpointSlices of a service have its backends")

	_, problems = convert.Converter{}.Convert(&corev1.Service{})
	require.Len(t, problems, 1)
	require.NotErrorIs(t, problems[0], convert.ErrIgnored)
}

// S77, S78
func TestServiceRules(t *testing.T) {
	const slices = "apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\n" +
		"metadata: {name: cart-1, namespace: shop, labels: {kubernetes.io/service-name: cart}}\n" +
		"addressType: IPv4\nendpoints: [{addresses: [10.0.0.2], nodeName: n1, targetRef: {kind: Pod, name: cart}}]\n" +
		"ports: [{name: http, port: 8080, protocol: TCP}]\n---\n" +
		"apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\n" +
		"metadata: {name: cart-2, namespace: shop, labels: {kubernetes.io/service-name: cart}}\n" +
		"addressType: IPv6\nendpoints: null\nports: null\n---\n"
	rules := "kind: NetworkPolicy\nmetadata: {name: a, namespace: shop}\n" +
		"spec: {selector: app == 'web', types: [Ingress, Egress], " +
		"ingress: [{action: Allow, source: {services: {name: cart}}}], egress: [{action: Allow, destination: " +
		"{services: {name: cart, namespace: shop}}}]}\n"
	resources, problems := manifest.Decode("test.yaml", []byte(cluster+slices+v3+rules))
	require.Empty(t, problems)
	check(t, resources, []probe{
		{web, cart, tcp, 8080, yes},
		{web, cart, tcp, 80, no},
		{web, cart, udp, 8080, no},
		{cart, web, tcp, 1, yes},
		{rat, web, tcp, 1, no},
	})
}
