// SPDX-License-Identifier: Apache-2.0

package convert_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/wayleave/wayleave/kubernetes/convert"
	"github.com/wayleave/wayleave/policy"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func testPod() *corev1.Pod {
	always := corev1.ContainerRestartPolicyAlways
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", Labels: map[string]string{"app": "web"}},
		Spec: corev1.PodSpec{
			NodeName: "n1", ServiceAccountName: "robot",
			Containers: []corev1.Container{
				{Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 80}, {ContainerPort: 81}}},
				{Ports: []corev1.ContainerPort{
					{Name: "http", ContainerPort: 8080, Protocol: corev1.ProtocolTCP},
					{Name: "dns", ContainerPort: 53, Protocol: corev1.ProtocolUDP},
				}},
			},
			InitContainers: []corev1.Container{
				{Ports: []corev1.ContainerPort{{Name: "setup", ContainerPort: 1}}},
				{RestartPolicy: &always, Ports: []corev1.ContainerPort{
					{Name: "mesh", ContainerPort: 15001, Protocol: corev1.ProtocolSCTP},
				}},
			},
		},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, PodIP: "10.0.0.1", PodIPs: []corev1.PodIP{{IP: "10.0.0.1"}, {IP: "fd00::1"}},
		},
	}
}

func TestPod(t *testing.T) {
	endpoint, problems := convert.Converter{}.Pod(testPod())
	require.Empty(t, problems)
	require.Equal(t, &policy.WorkloadEndpoint{
		Namespace: "shop", Name: "web", Node: "n1", Interface: convert.InterfaceName("shop", "web"),
		Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("fd00::1")},
		Labels: map[string]string{
			"app": "web", "projectcalico.org/orchestrator": "k8s",
			"projectcalico.org/serviceaccount": "robot", "pcsa.projectcalico.org/name": "robot",
			"pcns.projectcalico.org/name": "shop", "pcns.kubernetes.io/metadata.name": "shop",
		},
		Ports: []policy.EndpointPort{
			{Name: "http", Protocol: policy.ProtocolTCP, Port: 80},
			{Name: "http", Protocol: policy.ProtocolTCP, Port: 8080}, // S53
			{Name: "dns", Protocol: policy.ProtocolUDP, Port: 53},
			{Name: "mesh", Protocol: policy.ProtocolSCTP, Port: 15001},
		},
		Profiles: []string{"kns.shop", "ksa.shop.robot"},
	}, endpoint)
}

func TestPodVariants(t *testing.T) {
	tests := []struct {
		name   string
		change func(*corev1.Pod)
		want   func(*policy.WorkloadEndpoint)
	}{
		{
			"pending, with an address", func(p *corev1.Pod) { p.Status.Phase = corev1.PodPending },
			func(*policy.WorkloadEndpoint) {},
		},
		{
			"unknown phase", func(p *corev1.Pod) { p.Status.Phase = corev1.PodUnknown },
			func(*policy.WorkloadEndpoint) {},
		},
		{"no phase", func(p *corev1.Pod) { p.Status.Phase = "" }, func(*policy.WorkloadEndpoint) {}},
		{
			"about to end", func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{} },
			func(*policy.WorkloadEndpoint) {},
		},
		{
			"podIP alone", func(p *corev1.Pod) { p.Status.PodIPs = nil },
			func(w *policy.WorkloadEndpoint) { w.Addresses = w.Addresses[:1] },
		},
		{
			"an address twice",
			func(p *corev1.Pod) { p.Status.PodIPs = []corev1.PodIP{{IP: "10.0.0.1"}, {IP: "::ffff:10.0.0.1"}} },
			func(w *policy.WorkloadEndpoint) { w.Addresses = w.Addresses[:1] },
		},
		{
			"no service account", func(p *corev1.Pod) { p.Spec.ServiceAccountName = "" },
			func(w *policy.WorkloadEndpoint) {
				w.Labels[policy.LabelServiceAccount], w.Profiles[1] = "default", "ksa.shop.default"
				w.Labels["pcsa.projectcalico.org/name"] = "default"
			},
		},
		{"annotations are not trusted", func(p *corev1.Pod) {
			p.Annotations = map[string]string{convert.AnnotationInterface: "eth0", convert.AnnotationMAC: "x"}
		}, func(*policy.WorkloadEndpoint) {}},
		{"no namespace", func(p *corev1.Pod) { p.Namespace = "" }, func(w *policy.WorkloadEndpoint) { // S143
			w.Namespace, w.Profiles, w.Interface = "default", []string{"kns.default", "ksa.default.robot"},
				convert.InterfaceName("default", "web")
			w.Labels["pcns.projectcalico.org/name"], w.Labels["pcns.kubernetes.io/metadata.name"] = "default", "default"
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			pod := testPod()
			tt.change(pod)
			want, _ := convert.Converter{}.Pod(testPod())
			tt.want(want)
			got, problems := convert.Converter{}.Pod(pod)
			require.Empty(t, problems)
			require.Equal(t, want, got)
		})
	}
}

func TestPodSettings(t *testing.T) {
	pod := testPod()
	c := convert.Converter{Attachment: func(p *corev1.Pod) convert.Attachment {
		return convert.Attachment{Interface: p.Namespace + "-" + p.Name, MAC: "02:00:00:00:00:01"}
	}}
	endpoint, problems := c.Pod(pod)
	require.Empty(t, problems)
	require.Equal(t, "shop-web", endpoint.Interface)
	require.Equal(t, "02:00:00:00:00:01", endpoint.MAC)

	c.TrustAnnotations = true
	pod.Annotations = map[string]string{
		convert.AnnotationInterface: "veth7", convert.AnnotationMAC: "66-3E-CA-A4-DB-65",
	}
	endpoint, problems = c.Pod(pod)
	require.Empty(t, problems)
	require.Equal(t, "veth7", endpoint.Interface)
	require.Equal(t, "66:3e:ca:a4:db:65", endpoint.MAC)
}

// A pod has the addresses of its attachment until its status has all of them. A refused attachment
// is reported.
func TestPodAttachment(t *testing.T) {
	known := convert.Attachment{Interface: "veth0", Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.99")}}
	c := convert.Converter{Attachment: func(*corev1.Pod) convert.Attachment { return known }}
	pod := testPod()
	reported := pod.Status.PodIPs
	pod.Status = corev1.PodStatus{Phase: corev1.PodPending}
	endpoint, problems := c.Pod(pod)
	require.Empty(t, problems)
	require.Equal(t, "veth0", endpoint.Interface)
	require.Equal(t, known.Addresses, endpoint.Addresses)

	pod.Status.PodIPs = reported
	endpoint, problems = c.Pod(pod)
	require.Empty(t, problems)
	require.Equal(t, known.Addresses, endpoint.Addresses, "the status is that of an earlier link")
	pod.Status.PodIPs = []corev1.PodIP{{IP: "x"}}
	endpoint, problems = c.Pod(pod)
	require.NotEmpty(t, problems)
	require.Equal(t, known.Addresses, endpoint.Addresses)

	pod.Status.PodIPs = append(reported, corev1.PodIP{IP: "10.0.0.99"})
	endpoint, problems = c.Pod(pod)
	require.Empty(t, problems)
	require.Contains(t, endpoint.Addresses, known.Addresses[0])
	require.Len(t, endpoint.Addresses, len(reported)+1)

	known.Interface = "a name that is too long"
	_, problems = c.Pod(pod)
	require.NotEmpty(t, problems)
}

// A pod in the host's network, a terminated pod, and a pod without address or node have no endpoint
// and no error.
func TestPodWithoutNetwork(t *testing.T) {
	for name, change := range map[string]func(*corev1.Pod){
		"host network": func(p *corev1.Pod) { p.Spec.HostNetwork = true },
		"succeeded":    func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded },
		"failed":       func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed },
		"no address":   func(p *corev1.Pod) { p.Status = corev1.PodStatus{Phase: corev1.PodPending} },
		"no node":      func(p *corev1.Pod) { p.Spec.NodeName = "" },
	} {
		t.Run(name, func(t *testing.T) {
			pod := testPod()
			change(pod)
			resources, problems := convert.Converter{}.Convert(pod)
			require.Empty(t, resources)
			require.Empty(t, problems)
		})
	}
}

func TestInvalidPodIsAbsent(t *testing.T) {
	label := func(key string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Labels[key] = "x" }
	}
	for field, change := range map[string]func(*corev1.Pod){
		"metadata.name":           func(p *corev1.Pod) { p.Name = "" },
		"spec.nodeName":           func(p *corev1.Pod) { p.Spec.NodeName = "a b" },
		"status.podIP":            func(p *corev1.Pod) { p.Status.PodIPs, p.Status.PodIP = nil, "10.0.0.256" },
		"status.podIPs[0].ip":     func(p *corev1.Pod) { p.Status.PodIPs = []corev1.PodIP{{IP: "127.0.0.1"}} },
		`metadata.labels["a b"]`:  label("a b"),
		`metadata.labels["app"]`:  func(p *corev1.Pod) { p.Labels["app"] = `x" || all()` },
		"metadata.namespace":      func(p *corev1.Pod) { p.Namespace = "shop.front" },
		"spec.serviceAccountName": func(p *corev1.Pod) { p.Spec.ServiceAccountName = "a b" },
	} {
		t.Run(field, func(t *testing.T) {
			pod := testPod()
			change(pod)
			resources, problems := convert.Converter{TrustAnnotations: true}.Convert(pod)
			require.Empty(t, resources)
			require.Equal(t, []string{field}, fields(t, problems))
			require.Contains(t, problems[0].Error(), "Pod shop")
		})
	}
}

// fields returns the fields of problems.
func fields(t *testing.T, problems []error) []string {
	t.Helper()
	var list []string
	for _, problem := range problems {
		var wrong *convert.Error
		require.ErrorAs(t, problem, &wrong)
		list = append(list, wrong.Field)
	}
	return list
}

// An invalid part of a pod is left out. The rest is converted, because an absent pod would evade
// rules that deny it.
func TestInvalidPartOfPodIsLeftOut(t *testing.T) {
	label := func(key string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Labels[key] = "x" }
	}
	same := func(*policy.WorkloadEndpoint) {}
	for field, tt := range map[string]struct {
		change func(*corev1.Pod)
		want   func(*policy.WorkloadEndpoint)
	}{
		`metadata.labels["pcns.env"]`:                         {label("pcns.env"), same},
		`metadata.labels["pcns.projectcalico.org/name"]`:      {label("pcns.projectcalico.org/name"), same},
		`metadata.labels["pcsa.a"]`:                           {label("pcsa.a"), same},
		`metadata.labels["wayleave.dev/node.a"]`:              {label("wayleave.dev/node.a"), same},
		`metadata.labels["projectcalico.org/namespace"]`:      {label("projectcalico.org/namespace"), same},
		`metadata.labels["projectcalico.org/serviceaccount"]`: {label("projectcalico.org/serviceaccount"), same},
		`metadata.labels["projectcalico.org/orchestrator"]`:   {label("projectcalico.org/orchestrator"), same},
		"status.podIPs[1].ip": {
			func(p *corev1.Pod) { p.Status.PodIPs[1].IP = "fd00::1%eth0" },
			func(w *policy.WorkloadEndpoint) { w.Addresses = w.Addresses[:1] },
		},
		"status.podIPs[0].ip": {
			func(p *corev1.Pod) { p.Status.PodIPs[0].IP = "127.0.0.1" },
			func(w *policy.WorkloadEndpoint) { w.Addresses = w.Addresses[1:] },
		},
		"status.podIPs": {
			func(p *corev1.Pod) {
				for i := range 255 {
					p.Status.PodIPs = append(p.Status.PodIPs, corev1.PodIP{IP: fmt.Sprintf("10.1.0.%d", i)})
				}
			},
			func(w *policy.WorkloadEndpoint) {
				for i := range 254 {
					w.Addresses = append(w.Addresses, netip.AddrFrom4([4]byte{10, 1, 0, byte(i)}))
				}
			},
		},
		"spec.containers[0].ports[0].containerPort": {
			func(p *corev1.Pod) { p.Spec.Containers[0].Ports[0].ContainerPort = 65536 },
			func(w *policy.WorkloadEndpoint) { w.Ports = w.Ports[1:] },
		},
		"spec.containers[1].ports[1].protocol": {
			func(p *corev1.Pod) { p.Spec.Containers[1].Ports[1].Protocol = "udp" },
			func(w *policy.WorkloadEndpoint) { w.Ports = slices.Delete(w.Ports, 2, 3) },
		},
		"spec.containers[0].ports[0].name": {
			func(p *corev1.Pod) { p.Spec.Containers[0].Ports[0].Name = "a b" },
			func(w *policy.WorkloadEndpoint) { w.Ports = w.Ports[1:] },
		},
		"spec.initContainers[1].ports[0]": {
			func(p *corev1.Pod) {
				for i := range 9_997 {
					p.Spec.Containers[0].Ports = append(p.Spec.Containers[0].Ports,
						corev1.ContainerPort{Name: "x", ContainerPort: int32(i + 1)})
				}
			},
			func(w *policy.WorkloadEndpoint) {
				ports := w.Ports[:1:1]
				for i := range 9_997 {
					ports = append(ports, policy.EndpointPort{
						Name: "x", Protocol: policy.ProtocolTCP, Port: uint16(i + 1),
					})
				}
				w.Ports = append(ports, w.Ports[1:3]...)
			},
		},
		`metadata.annotations["wayleave.dev/mac"]`: {
			func(p *corev1.Pod) { p.Annotations = map[string]string{convert.AnnotationMAC: "00:11:22"} }, same,
		},
		`metadata.annotations["wayleave.dev/interface"]`: {func(p *corev1.Pod) {
			p.Annotations = map[string]string{convert.AnnotationInterface: strings.Repeat("x", 16)}
		}, same},
	} {
		t.Run(field, func(t *testing.T) {
			pod := testPod()
			want, _ := convert.Converter{}.Pod(pod)
			tt.want(want)
			tt.change(pod)
			endpoint, problems := convert.Converter{TrustAnnotations: true}.Pod(pod)
			require.Equal(t, []string{field}, fields(t, problems))
			require.NotErrorIs(t, problems[0], convert.ErrIgnored)
			require.Equal(t, want, endpoint)
		})
	}
	pod := testPod()
	pod.Annotations = map[string]string{convert.AnnotationMAC: "01:00:5e:00:00:01"} // a multicast address
	endpoint, problems := convert.Converter{TrustAnnotations: true}.Pod(pod)
	require.Len(t, problems, 1)
	require.Empty(t, endpoint.MAC)
}

// An object with too many labels is converted with the first 1,000 of them.
func TestTooManyLabelsAreTruncated(t *testing.T) {
	labels := map[string]string{}
	for i := range 2_000 {
		labels[fmt.Sprintf("l%04d", i)] = "x"
	}
	pod, node := testPod(), testNode()
	pod.Labels, node.Labels = labels, labels
	for _, object := range []metav1.Object{
		pod, node,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: labels}},
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: labels}},
	} {
		resources, problems := convert.Converter{}.Convert(object)
		require.NotEmpty(t, resources, "%T", object)
		require.Equal(t, []string{"metadata.labels"}, fields(t, problems))
	}
	endpoint, _ := convert.Converter{}.Pod(pod)
	require.Contains(t, endpoint.Labels, "l0999")
	require.NotContains(t, endpoint.Labels, "l1000")
	require.Len(t, labels, 2_000, "the object is not changed")
}

// The default name of an interface depends on the pod, and is within the kernel's limit.
func TestInterfaceName(t *testing.T) {
	require.Len(t, convert.InterfaceName("a", "b"), 15)
	require.Regexp(t, "^way[0-9a-f]{12}$", convert.InterfaceName("shop", "web"))
	require.NotEqual(t, convert.InterfaceName("a", "b"), convert.InterfaceName("b", "a"))
}

func TestNamespace(t *testing.T) {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop", Labels: map[string]string{
		"team": "a", "projectcalico.org/name": "lies", "kubernetes.io/metadata.name": "lies",
	}}}
	profile, problems := convert.Converter{}.Namespace(ns)
	require.Empty(t, problems)
	require.Equal(t, &policy.Profile{
		Name: "kns.shop",
		LabelsToApply: map[string]string{
			"pcns.team": "a", "pcns.projectcalico.org/name": "shop",
			"pcns.kubernetes.io/metadata.name": "shop", "pcns.wayleave.dev/known": "true",
		}, // S141
		Ingress: []policy.Rule{{Action: policy.Allow}},
		Egress:  []policy.Rule{{Action: policy.Allow}},
	}, profile)
	require.Equal(t, "lies", ns.Labels["projectcalico.org/name"], "the object is not changed")

	ns.Labels["team"] = "a b"
	profile, problems = convert.Converter{}.Namespace(ns)
	require.Nil(t, profile)
	require.Len(t, problems, 1)
}

func TestUnknownType(t *testing.T) {
	resources, problems := convert.Converter{}.Convert(&corev1.Secret{})
	require.Empty(t, resources)
	require.Len(t, problems, 1)
	require.ErrorIs(t, problems[0], convert.ErrNotSupported)
}
