// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"embed"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

//go:embed manifests
var manifests embed.FS

// installWayleave applies the CRDs and the DaemonSet as docs/kubernetes.md has it, and the DNS of
// the cluster.
func (c *cluster) installWayleave(ctx context.Context) error {
	daemonSet, err := c.daemonSet()
	if err != nil {
		return err
	}
	coredns, err := manifests.ReadFile("manifests/coredns.yaml")
	if err != nil {
		return err
	}
	crds, err := os.ReadFile(c.bin("cluster-programs/policy-crds"))
	if err != nil {
		return err
	}
	report := filepath.Join(c.repository, "datastore/kubernetes/report/crd.yaml")
	args := []string{"apply", "--server-side", "-f", report}
	for _, crd := range strings.Fields(string(crds)) {
		args = append(args, "-f", crd)
	}
	if err := c.kubectl(ctx, args...); err != nil {
		return err
	}
	for _, manifest := range []string{daemonSet, string(coredns)} {
		cmd := c.kubectlCommand(ctx, "apply", "-f", "-")
		cmd.Stdin = strings.NewReader(manifest)
		if err := output(cmd); err != nil {
			return err
		}
	}
	return c.kubectl(ctx, "-n", "wayleave", "rollout", "status", "daemonset/wayleave-agent", "--timeout=120s")
}

// daemonSet returns the manifest of the agent as a user of a cluster with two families changes it.
// The changes are the image, pools and forwarding of IPv6, and host ports. For routes by VXLAN,
// their flag and the MTU are changed, too.
func (c *cluster) daemonSet() (string, error) {
	file := filepath.Join(c.repository, "examples/agent/deploy/kubernetes.yaml")
	content, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	type change struct{ old, new string }
	changes := []change{
		{exampleImage, agentImage},
		{"  log-level: INFO\n", "  log-level: INFO\n  forward-ipv6: \"true\"\n"},
		{poolSpec, c.poolSpecs()},
		{conflistEnd, conflistEnd + `, {
        "type": "portmap", "capabilities": {"portMappings": true}
      }`},
	}
	if c.Routes == routesVXLAN {
		changes = append(changes,
			change{"- --kubernetes-pod-cidrs\n", "- --kubernetes-pod-cidrs\n            - --kubernetes-vxlan\n"},
			// 1,500 less the headers of VXLAN over IPv6
			change{`"timeout": "90s"`, `"timeout": "90s", "mtu": 1430`},
		)
	}
	manifest := string(content)
	for _, change := range changes {
		if !strings.Contains(manifest, change.old) {
			return "", fmt.Errorf("%s does not contain %q", file, change.old)
		}
		manifest = strings.ReplaceAll(manifest, change.old, change.new)
	}
	return manifest, nil
}

// Parts of the manifest of the agent.
const (
	exampleImage = "registry.example/wayleave-agent:latest"
	poolSpec     = "    spec: {cidr: 10.244.0.0/16, natOutgoing: true} # replace\n"
	conflistEnd  = `"ranges": "POD_CIDRS"}
      }`
)

// poolSpecs returns the end of the pool for IPv4, and a pool for IPv6.
func (c *cluster) poolSpecs() string {
	mode := "Never"
	if c.Routes == routesVXLAN {
		mode = "Always"
	}
	pods, pods6, _ := strings.Cut(podCIDRs, ",")
	return fmt.Sprintf(`    spec: {cidr: %s, natOutgoing: true, vxlanMode: %s}
    ---
    apiVersion: projectcalico.org/v3
    kind: IPPool
    metadata: {name: pods6}
    spec: {cidr: "%s", natOutgoing: true, vxlanMode: %s}
`, pods, mode, pods6, mode)
}
