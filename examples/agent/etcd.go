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

// etcdClient returns a client for the etcd of the settings. The client does not connect yet. If
// only one of two settings that belong together is set, etcdClient leaves that setting out. Package
// settings already reports this error. The library would report it again, under the names of the
// library's fields.
func etcdClient(s settings.Settings) (*etcd.Client, error) {
	if s.Etcd == "" {
		return nil, cli.Usagef("--etcd is required: give the servers, as in https://10.0.0.5:2379")
	}
	cfg := etcd.Config{Prefix: s.EtcdPrefix, Cluster: s.EtcdCluster, TLS: etcd.TLS{CAFile: s.EtcdCAFile}}
	if s.EtcdCertFile != "" && s.EtcdKeyFile != "" {
		cfg.TLS.CertFile, cfg.TLS.KeyFile = s.EtcdCertFile, s.EtcdKeyFile
	}
	for endpoint := range strings.SplitSeq(s.Etcd, ",") {
		cfg.Endpoints = append(cfg.Endpoints, strings.TrimSpace(endpoint))
	}
	if s.EtcdUsername != "" && s.EtcdPasswordFile != "" {
		cfg.Username = s.EtcdUsername
		cfg.ReadPassword = func() (etcd.Secret, error) {
			data, err := os.ReadFile(s.EtcdPasswordFile)
			if err != nil {
				return "", fmt.Errorf("--etcd-password-file: %w: give a file with the password", err)
			}
			return etcd.Secret(strings.TrimRight(string(data), "\r\n")), nil
		}
		if _, err := cfg.ReadPassword(); err != nil {
			return nil, err
		}
	}
	return etcd.NewClient(cfg)
}
