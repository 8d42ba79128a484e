// SPDX-License-Identifier: Apache-2.0

package etcd_test

import (
	"context"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/server/v3/embed"

	"github.com/wayleave/wayleave/datastore/etcd"
)

// Errors of unreachable servers, and of servers that refuse the client, have the server and the
// cause, and never the password.
func TestDialErrorIsExplained(t *testing.T) {
	ca, foreign := newAuthority(t), newAuthority(t)
	ca.issue(t, "server")
	ca.issue(t, "agent")
	ca.issueUntil(t, "late", time.Now().Add(-time.Minute))
	foreign.issue(t, "agent")
	srv := newServer(t, ca.protect(t))
	old := newAuthority(t)
	old.issueUntil(t, "server", time.Now().Add(-time.Minute))
	old.issue(t, "agent")
	expired := newServer(t, old.protect(t))
	open, _, _ := newStoreOn(t)
	users(t, open)
	nobody := "http://" + freePort(t)

	files := func(ca, a *authority, name string) etcd.TLS {
		tls := etcd.TLS{CAFile: ca.file("ca.crt")}
		if name != "" {
			tls.CertFile, tls.KeyFile = a.file(name+".crt"), a.file(name+".key")
		}
		return tls
	}
	for _, row := range []struct {
		name     string
		url      string
		tls      etcd.TLS
		password etcd.Secret
		says     string
	}{
		{"nobody listens", nobody, etcd.TLS{}, "", "connection refused"},
		{"no server, with a user", nobody, etcd.TLS{}, "hush", "connection refused"},
		{"no certificate", srv.url, files(ca, nil, ""), "", "the server's error: tls: certificate required"},
		{
			"foreign certificate", srv.url, files(ca, foreign, "agent"), "",
			"the server's error: tls: unknown certificate authority",
		},
		{
			"foreign certificate of a user", srv.url, files(ca, foreign, "agent"), "hush",
			"the server's error: tls: unknown certificate authority",
		},
		{"expired certificate", srv.url, files(ca, ca, "late"), "", "the server's error: tls: expired certificate"},
		{"wrong authority", srv.url, files(foreign, ca, "agent"), "", "certificate signed by unknown authority"},
		{"expired server", expired.url, files(old, old, "agent"), "", "certificate has expired or is not yet valid"},
		{"no TLS", strings.Replace(srv.url, "https", "http", 1), etcd.TLS{}, "", ": "},
		{"wrong password", open.url, etcd.TLS{}, "hush!", "authentication failed, invalid user ID or password"},
		{"no password", open.url, etcd.TLS{}, "", "user name is empty"},
	} {
		t.Run(row.name, func(t *testing.T) {
			// most subtests wait for a timeout
			t.Parallel()
			cfg := etcd.Config{
				Endpoints: []string{row.url}, Cluster: "test", TLS: row.tls, Password: row.password,
				RequestTimeout: time.Second,
			}
			if row.password != "" {
				cfg.Username = "agent"
			}
			client := newClientOf(t, cfg)
			u, err := url.Parse(row.url)
			require.NoError(t, err)
			clear := func(err error) bool {
				require.NotContains(t, err.Error(), "hush", row.name)
				return strings.Contains(err.Error(), u.Host) && strings.Contains(err.Error(), row.says)
			}
			w, r := &witness{}, newReceiver()
			_, stop := start(t, quick(client, w), r)
			w.waitLost(t, row.name+": "+row.says, clear)
			require.False(t, r.isInSync(), row.name)
			_ = stop()
			err = newStore(t, client).Init(t.Context())
			require.Error(t, err, row.name)
			require.True(t, clear(err), "%s: %v", row.name, err)
		})
	}
}

// A certificate that has expired is replaced while the program runs.
func TestCertificateIsRenewed(t *testing.T) {
	ca := newAuthority(t)
	ca.issue(t, "server")
	ca.issue(t, "admin")
	ca.issueUntil(t, "agent", time.Now().Add(-time.Minute))
	srv := newServer(t, ca.protect(t))
	client := func(name string) *etcd.Client {
		return newClientOf(t, etcd.Config{
			Endpoints: []string{srv.url}, Cluster: "test", RequestTimeout: time.Second,
			TLS: etcd.TLS{CAFile: ca.file("ca.crt"), CertFile: ca.file(name + ".crt"), KeyFile: ca.file(name + ".key")},
		})
	}
	store := newStore(t, client("admin"))
	require.NoError(t, store.Init(t.Context()))
	update(t, store, set("a", "1"))
	w, r := &witness{}, newReceiver()
	start(t, quick(client("agent"), w), r)
	w.waitLost(t, "expired", func(err error) bool { return strings.Contains(err.Error(), "expired certificate") })
	require.NoError(t, os.Rename(ca.file("admin.crt"), ca.file("agent.crt")))
	require.NoError(t, os.Rename(ca.file("admin.key"), ca.file("agent.key")))
	r.wait(t, "a=1")
	r.waitInSync(t)
}

// All endpoints share one transport. So the password of a loopback address without TLS could be
// sent to others without TLS.
func TestEndpointsMustHaveOneScheme(t *testing.T) {
	_, err := etcd.NewClient(etcd.Config{
		Endpoints: []string{"http://127.0.0.1:1", "https://192.0.2.1:2"}, Username: "u", Password: "hush",
	})
	require.ErrorContains(t, err, "all http or all https")
	require.NotContains(t, err.Error(), "hush")
}

// The error of a server is deleted once the server can be reached by name.
func TestDialErrorOfNamedServerIsDeleted(t *testing.T) {
	srv := newServer(t, func(cfg *embed.Config) {
		cfg.ListenClientUrls = []url.URL{{Scheme: "http", Host: freePortOf(t, "127.0.0.1")}}
		cfg.AdvertiseClientUrls = cfg.ListenClientUrls
	})
	store := newStore(t, newClientOf(t, etcd.Config{
		Endpoints: []string{strings.Replace(srv.url, "127.0.0.1", "localhost", 1)}, Cluster: "test",
		RequestTimeout: time.Second,
	}))
	srv.stop()
	require.ErrorContains(t, store.Init(t.Context()), "localhost:")
	require.ErrorContains(t, store.Init(t.Context()), "connection refused")
	srv.start(t)
	eventually(t, "it to answer", func() bool { return store.Init(t.Context()) == nil })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := store.Init(ctx)
	require.ErrorIs(t, err, context.Canceled)
	require.NotContains(t, err.Error(), "connection refused")
}
