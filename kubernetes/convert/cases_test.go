// SPDX-License-Identifier: Apache-2.0

package convert_test

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/wayleave/wayleave/kubernetes/convert"
	"github.com/wayleave/wayleave/policy"
	"github.com/wayleave/wayleave/policy/verdict"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// clusterCase is a cluster with the connectivity that it must have.
type clusterCase struct {
	Name       string
	Namespaces map[string]map[string]string
	Pods       []casePod
	Policies   []*networkingv1.NetworkPolicy
	Expected   []struct {
		Family                    int
		Protocol                  string
		Port                      uint16
		Ingress, Egress, Combined string
	}
}

type casePod struct {
	NS, Name string
	Labels   map[string]string
	IPs      []netip.Addr
	Ports    []struct {
		Name     string
		Port     int32
		Protocol corev1.Protocol
	}
}

func (p casePod) object() *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: p.NS, Name: p.Name, Labels: p.Labels}}
	pod.Spec.NodeName = "node"
	pod.Spec.Containers = make([]corev1.Container, 1)
	for _, port := range p.Ports {
		pod.Spec.Containers[0].Ports = append(pod.Spec.Containers[0].Ports,
			corev1.ContainerPort{Name: port.Name, ContainerPort: port.Port, Protocol: port.Protocol})
	}
	for _, ip := range p.IPs {
		pod.Status.PodIPs = append(pod.Status.PodIPs, corev1.PodIP{IP: ip.String()})
	}
	return pod
}

func (p casePod) address(family int) netip.Addr {
	for _, ip := range p.IPs {
		if ip.Is4() == (family == 4) {
			return ip
		}
	}
	return netip.Addr{}
}

// TestClusters converts whole clusters and compares the verdict of every pair of pods with the
// matrix that is known to be right. S125-S139, S142
func TestClusters(t *testing.T) {
	clusters := readClusters(t, "testdata/networkpolicy.jsonl.gz")
	require.Len(t, clusters, 70)
	for _, c := range clusters {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			evaluator := verdict.New(c.world(t))
			require.Empty(t, evaluator.Rejected())
			for _, want := range c.Expected {
				checkMatrix(t, evaluator, c.Pods, want.Family, want.Protocol, want.Port, want.Ingress, want.Egress, want.Combined)
			}
		})
	}
}

func readClusters(t *testing.T, file string) []clusterCase {
	t.Helper()
	f, err := os.Open(file)
	require.NoError(t, err)
	defer f.Close() //nolint:errcheck // only read
	unzipped, err := gzip.NewReader(f)
	require.NoError(t, err)
	lines := bufio.NewScanner(unzipped)
	lines.Buffer(nil, 16<<20)
	var clusters []clusterCase
	for lines.Scan() {
		var c clusterCase
		require.NoError(t, json.Unmarshal(lines.Bytes(), &c))
		clusters = append(clusters, c)
	}
	require.NoError(t, lines.Err())
	return clusters
}

func (c clusterCase) world(t *testing.T) verdict.World {
	t.Helper()
	world := verdict.World{}
	add := func(object metav1.Object) {
		resource, problems := convert.Converter{}.Convert(object)
		require.Empty(t, problems)
		require.NotNil(t, resource)
		world.Set(resource)
	}
	for name, labels := range c.Namespaces {
		add(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}})
	}
	for _, pod := range c.Pods {
		add(pod.object())
	}
	for _, np := range c.Policies {
		add(np)
	}
	return world
}

func checkMatrix(t *testing.T, e *verdict.Evaluator, pods []casePod, family int, protocol string, port uint16, ingress, egress, combined string) {
	t.Helper()
	number, err := policy.ParseProtocol(protocol)
	require.NoError(t, err)
	var gotIngress, gotEgress, gotCombined strings.Builder
	for _, src := range pods {
		for _, dst := range pods {
			result := e.Evaluate(verdict.Flow{
				Src: src.address(family), Dst: dst.address(family),
				Protocol: number, SrcPort: 40000, DstPort: port,
			})
			gotIngress.WriteString(cell(result.Ingress))
			gotEgress.WriteString(cell(result.Egress))
			gotCombined.WriteString(cell(result.Combined))
		}
	}
	require.Equal(t, ingress, gotIngress.String(), "ingress IPv%d %s %d", family, protocol, port)
	require.Equal(t, egress, gotEgress.String(), "egress IPv%d %s %d", family, protocol, port)
	require.Equal(t, combined, gotCombined.String(), "combined IPv%d %s %d", family, protocol, port)
}

func cell(o verdict.Outcome) string {
	switch o {
	case verdict.Allow:
		return "."
	case verdict.Deny:
		return "X"
	}
	return "-"
}
