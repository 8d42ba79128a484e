// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/wayleave/wayleave/datastore/etcd"
	"github.com/wayleave/wayleave/examples/agent/internal/settings"
	"github.com/wayleave/wayleave/examples/internal/cli"
)

// etcdClient returns a client of the etcd among the settings. It does not speak to it yet.
func etcdClient(s settings.Settings) (*etcd.Client, error) {
	if s.Etcd == "" {
		return nil, cli.Usagef("--etcd is required")
	}
	cfg := etcd.Config{
		Prefix: s.EtcdPrefix, Cluster: s.EtcdCluster, Username: s.EtcdUsername,
		TLS: etcd.TLS{CAFile: s.EtcdCAFile, CertFile: s.EtcdCertFile, KeyFile: s.EtcdKeyFile},
	}
	for endpoint := range strings.SplitSeq(s.Etcd, ",") {
		cfg.Endpoints = append(cfg.Endpoints, strings.TrimSpace(endpoint))
	}
	if s.EtcdPasswordFile != "" {
		cfg.ReadPassword = func() (etcd.Secret, error) {
			data, err := os.ReadFile(s.EtcdPasswordFile)
			if err != nil {
				return "", fmt.Errorf("--etcd-password-file: %w", err)
			}
			return etcd.Secret(strings.TrimRight(string(data), "\r\n")), nil
		}
		if _, err := cfg.ReadPassword(); err != nil {
			return nil, err
		}
	}
	return etcd.NewClient(cfg)
}
