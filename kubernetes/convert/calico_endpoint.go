// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/wayleave/wayleave/kubernetes/convert/calico"
	"github.com/wayleave/wayleave/policy"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// CalicoHostEndpoint turns a Calico HostEndpoint into a host endpoint. Every error is an *Error; with
// one, there is no endpoint.
func (c Converter) CalicoHostEndpoint(h *calico.HostEndpoint) (*policy.HostEndpoint, []error) {
	p, _ := begin("HostEndpoint", h, false)
	checkReservedLabels(p, h.Labels)
	out := &policy.HostEndpoint{
		Name:          h.Name,
		Node:          h.Spec.Node,
		InterfaceName: h.Spec.InterfaceName,
		Labels:        maps.Clone(h.Labels),
		Profiles:      slices.Clone(h.Spec.Profiles),
	}
	for i, text := range h.Spec.ExpectedIPs {
		out.ExpectedIPs = appendAddress(p, out.ExpectedIPs, fmt.Sprintf("spec.expectedIPs[%d]", i), text)
	}
	for i, port := range h.Spec.Ports {
		out.Ports = appendCalicoPort(p, out.Ports, fmt.Sprintf("spec.ports[%d]", i), port.Name, port.Protocol, port.Port)
	}
	return finish(out, p, inSpec())
}

// CalicoWorkloadEndpoint turns a Calico WorkloadEndpoint into a workload endpoint. The labels that Calico
// derives from the spec (projectcalico.org/orchestrator, .../serviceaccount) are set where
// they are missing, and refused where they say something else. Ports without a name, which are there for
// their host port, are left out. Every error is an *Error; with one, there is no endpoint.
func (c Converter) CalicoWorkloadEndpoint(w *calico.WorkloadEndpoint) (*policy.WorkloadEndpoint, []error) {
	p, namespace := begin("WorkloadEndpoint", w, true)
	out := &policy.WorkloadEndpoint{
		Namespace: namespace,
		Name:      w.Name,
		Node:      w.Spec.Node,
		Interface: w.Spec.InterfaceName,
		Labels:    workloadLabels(p, w),
		Profiles:  slices.Clone(w.Spec.Profiles),

		AllowSpoofedSourcePrefixes: calicoNets(p, "spec.allowSpoofedSourcePrefixes", w.Spec.AllowSpoofedSourcePrefixes),
	}
	for i, text := range w.Spec.IPNetworks {
		out.Addresses = appendFullLength(p, out.Addresses, fmt.Sprintf("spec.ipNetworks[%d]", i), text)
	}
	for i, nat := range w.Spec.IPNATs {
		path := fmt.Sprintf("spec.ipNATs[%d]", i)
		out.IPNATs = append(out.IPNATs, policy.IPNAT{
			InternalIP: parseAddress(p, path+".internalIP", nat.InternalIP),
			ExternalIP: parseAddress(p, path+".externalIP", nat.ExternalIP),
		})
	}
	if w.Spec.MAC != "" {
		out.MAC = parseMAC(p, "spec.mac", w.Spec.MAC)
	}
	for i, port := range w.Spec.Ports {
		if port.Name != "" {
			out.Ports = appendCalicoPort(p, out.Ports, fmt.Sprintf("spec.ports[%d]", i), port.Name, port.Protocol, port.Port)
		}
	}
	return finish(out, p, renamed("name", "metadata.name", "namespace", "metadata.namespace", "labels", "metadata.labels",
		"interface", "spec.interfaceName", "addresses", "spec.ipNetworks", "", "spec."))
}

// workloadLabels returns the labels of the endpoint with those that follow from the spec.
func workloadLabels(p *problems, w *calico.WorkloadEndpoint) map[string]string {
	labels := cloneLabels(w.Labels)
	for _, derived := range []struct{ label, value string }{
		{labelOrchestrator, w.Spec.Orchestrator},
		{policy.LabelServiceAccount, w.Spec.ServiceAccountName},
	} {
		switch have, ok := labels[derived.label]; {
		case ok && derived.value != "" && have != derived.value:
			p.addf(labelPath(derived.label), "%q is not what the spec says, %q", have, derived.value)
		case derived.value != "":
			labels[derived.label] = derived.value
		}
	}
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		for _, prefix := range []string{policy.NamespaceLabelPrefix, policy.ServiceAccountLabelPrefix, NodeLabelPrefix} {
			if strings.HasPrefix(k, prefix) {
				p.addf(labelPath(k), "the label is reserved: it comes from a profile or a node")
			}
		}
	}
	return labels
}

// appendFullLength appends an address that may have its full length behind it.
func appendFullLength(p *problems, list []netip.Addr, path, text string) []netip.Addr {
	prefix, err := netip.ParsePrefix(text)
	switch {
	case err != nil:
		return appendAddress(p, list, path, text)
	case !prefix.IsSingleIP():
		p.addf(path, "%s is more than one address", prefix)
		return list
	}
	return appendAddress(p, list, path, prefix.Addr().String())
}

// appendCalicoPort appends a named port.
func appendCalicoPort(p *problems, list []policy.EndpointPort, path, name string, protocol intstr.IntOrString, number int) []policy.EndpointPort {
	if number < 1 || number > 65535 {
		p.addf(path+".port", "%d is no port: ports are 1 to 65535", number)
		return list
	}
	port := policy.EndpointPort{Name: name, Protocol: calicoProtocol(p, path+".protocol", &protocol), Port: uint16(number)}
	if slices.Contains(list, port) {
		return list
	}
	return append(list, port)
}
