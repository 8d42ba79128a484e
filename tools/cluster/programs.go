// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/wayleave/wayleave/tools/cluster/internal/machine"
	"github.com/wayleave/wayleave/tools/cluster/internal/pki"
)

// programs returns the programs that run on a machine.
func (c *cluster) programs(name string) []machine.Program {
	if name == controlName {
		return c.controlPrograms()
	}
	i := slices.Index(c.nodes(), name)
	return c.nodePrograms(name, i)
}

func (c *cluster) controlPrograms() []machine.Program {
	file := func(name string) string { return c.state("pki", name) }
	return []machine.Program{
		{Name: "etcd", Args: []string{
			c.bin("kubernetes/etcd"),
			"--data-dir=" + c.state("etcd"),
			"--unsafe-no-fsync", // the cluster does not outlive the host
			"--log-level=warn",
		}},
		{Name: "kube-apiserver", Args: []string{
			c.bin("kubernetes/kube-apiserver"),
			"--etcd-servers=http://127.0.0.1:2379",
			"--advertise-address=" + apiAddress,
			"--secure-port=6443",
			"--tls-cert-file=" + file(pki.ServerCertificate),
			"--tls-private-key-file=" + file(pki.ServerKey),
			"--token-auth-file=" + file("tokens.csv"),
			"--authorization-mode=Node,RBAC",
			"--service-account-issuer=https://kubernetes.default.svc." + dnsDomain,
			"--service-account-key-file=" + file(pki.AccountKey),
			"--service-account-signing-key-file=" + file(pki.AccountKey),
			"--service-cluster-ip-range=" + serviceCIDRs,
			"--allow-privileged=true",
			"--kubelet-preferred-address-types=InternalIP",
		}},
		{Name: "kube-controller-manager", Args: []string{
			c.bin("kubernetes/kube-controller-manager"),
			"--kubeconfig=" + c.kubeconfig("controller-manager"),
			"--service-account-private-key-file=" + file(pki.AccountKey),
			"--root-ca-file=" + file(pki.CACertificate),
			"--use-service-account-credentials=true",
			"--allocate-node-cidrs=true",
			"--cluster-cidr=" + podCIDRs,
			"--service-cluster-ip-range=" + serviceCIDRs,
			"--leader-elect=false",
			"--kube-api-qps=200", "--kube-api-burst=400",
		}},
		{Name: "kube-scheduler", Args: []string{
			c.bin("kubernetes/kube-scheduler"),
			"--kubeconfig=" + c.kubeconfig("scheduler"),
			"--leader-elect=false",
			"--kube-api-qps=200", "--kube-api-burst=400",
		}},
	}
}

func (c *cluster) nodePrograms(name string, i int) []machine.Program {
	address, address6 := nodeAddresses(i)
	path := []string{"PATH=" + c.path()}
	return []machine.Program{
		{Name: "containerd", Env: path, Args: []string{
			c.bin("containerd/usr/bin/containerd"), "--config=" + c.state("containerd.toml"),
		}},
		{Name: "kubelet", Env: path, Args: []string{
			c.bin("kubernetes/kubelet"),
			"--kubeconfig=" + c.kubeconfig(name),
			"--config=" + c.state("kubelet.json"),
			"--hostname-override=" + name,
			fmt.Sprintf("--node-ip=%s,%s", address, address6),
			fmt.Sprintf("--node-labels=topology.kubernetes.io/zone=zone%d", i+1),
		}},
		{Name: "kube-proxy", Env: path, Args: []string{
			c.bin("kubernetes/kube-proxy"),
			"--config=" + c.state("kube-proxy.json"),
			"--hostname-override=" + name,
		}},
	}
}

// writeProgramFiles writes the files that the programs read.
func (c *cluster) writeProgramFiles() error {
	files := map[string]any{
		"containerd.toml": c.containerdConfig(),
		"kubelet.json":    c.kubeletConfig(),
		"resolv.conf":     "", // the cluster has no way to a name server outside
		"kube-proxy.json": map[string]any{
			"apiVersion":       "kubeproxy.config.k8s.io/v1alpha1",
			"kind":             "KubeProxyConfiguration",
			"clientConnection": map[string]any{"kubeconfig": c.kubeconfig("kube-proxy")},
			"mode":             c.Proxy,
			// It contains the pods of all nodes. Otherwise kube-proxy masquerades connections
			// between pods, and policy does not see the client.
			"clusterCIDR": podCIDRs,
			// These sysctls can only be read in a network namespace.
			"conntrack": map[string]any{
				"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s",
			},
		},
	}
	for name, content := range files {
		text, isText := content.(string)
		if !isText {
			encoded, err := json.MarshalIndent(content, "", "  ")
			if err != nil {
				return err
			}
			text = string(encoded)
		}
		if err := os.WriteFile(c.state(name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	return c.writeAccess()
}

func (c *cluster) kubeletConfig() map[string]any {
	never := "0%"
	return map[string]any{
		"apiVersion": "kubelet.config.k8s.io/v1beta1",
		"kind":       "KubeletConfiguration",
		// Only the cluster's own namespaces reach kubelet.
		"authentication": map[string]any{
			"anonymous": map[string]any{"enabled": true}, "webhook": map[string]any{"enabled": false},
		},
		"authorization":                 map[string]any{"mode": "AlwaysAllow"},
		"clusterDNS":                    []string{dnsAddress},
		"clusterDomain":                 dnsDomain,
		"resolvConf":                    c.state("resolv.conf"),
		"containerRuntimeEndpoint":      "unix:///run/containerd/containerd.sock",
		"cgroupDriver":                  "cgroupfs",
		"cgroupsPerQOS":                 false,
		"enforceNodeAllocatable":        []string{},
		"failCgroupV1":                  false,
		"failSwapOn":                    false,
		"localStorageCapacityIsolation": false,
		"makeIPTablesUtilChains":        false,
		"serializeImagePulls":           false,
		"registryPullQPS":               0,
		"kubeAPIQPS":                    200,
		"kubeAPIBurst":                  400,
		"maxPods":                       250,
		// The disk is that of the host.
		"imageGCHighThresholdPercent": 100,
		"evictionHard": map[string]any{
			"nodefs.available": never, "nodefs.inodesFree": never,
			"imagefs.available": never, "imagefs.inodesFree": never, "memory.available": never,
		},
	}
}

func (c *cluster) containerdConfig() string {
	return fmt.Sprintf(`version = 2
root = "/var/lib/containerd"
state = "/run/containerd"

[grpc]
  address = "/run/containerd/containerd.sock"

[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = %q
  # A container of root may lack CAP_SYS_RESOURCE.
  restrict_oom_score_adj = true

  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"

    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"

      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        BinaryName = %q
        SystemdCgroup = false

  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/opt/cni/bin"
    conf_dir = "/etc/cni/net.d"
`, pauseImage, c.bin("containerd/usr/sbin/runc"))
}

// user is a client of the API server that is not a pod.
type user struct{ file, name, group string }

func (c *cluster) users() []user {
	users := []user{
		{"admin", "admin", "system:masters"},
		{"controller-manager", "system:kube-controller-manager", ""},
		{"scheduler", "system:kube-scheduler", ""},
		{"kube-proxy", "system:kube-proxy", ""},
	}
	for _, node := range c.nodes() {
		users = append(users, user{node, "system:node:" + node, "system:nodes"})
	}
	return users
}

func (c *cluster) kubeconfig(user string) string { return c.state("access", user+".json") }

// writeAccess writes the tokens of all users and their kubeconfig files. A token is the name of
// its user: only the cluster's own namespaces reach the API server.
func (c *cluster) writeAccess() error {
	if err := os.MkdirAll(c.state("access"), 0o700); err != nil {
		return err
	}
	var tokens strings.Builder
	for _, user := range c.users() {
		fmt.Fprintf(&tokens, "%s,%s,%s,%q\n", user.file, user.name, user.name, user.group)
		encoded, err := json.MarshalIndent(map[string]any{
			"apiVersion": "v1",
			"kind":       "Config",
			"clusters": []any{map[string]any{"name": "cluster", "cluster": map[string]any{
				"server": apiServer, "certificate-authority": c.state("pki", pki.CACertificate),
			}}},
			"users": []any{map[string]any{"name": user.file, "user": map[string]any{"token": user.file}}},
			"contexts": []any{map[string]any{
				"name": "cluster", "context": map[string]any{"cluster": "cluster", "user": user.file},
			}},
			"current-context": "cluster",
		}, "", "  ")
		if err != nil {
			return err
		}
		if err := os.WriteFile(c.kubeconfig(user.file), encoded, 0o600); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(c.state("pki"), "tokens.csv"), []byte(tokens.String()), 0o600)
}
