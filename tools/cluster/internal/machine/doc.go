// SPDX-License-Identifier: Apache-2.0

// Package machine runs programs on a simulated machine. A machine is a process 1 in new namespaces
// (mounts, processes, network, host name, IPC, control groups). Process 1 starts the programs and
// restarts them.
//
// A machine has the files of the host, with two exceptions. Its /etc is a copy-on-write view of the
// host's /etc. Its /opt, /var/lib, /var/log and /run are its own. /opt, /var/lib and the changes of
// /etc are in [Config.Dir], and /var/log is [Config.Logs]. They outlast a machine that is killed;
// /run does not. /proc and /sys show the machine's own processes, links and control groups.
//
// A machine ends with its process 1: the kernel then kills all its processes, and removes its
// mounts and links. Only its folders and control groups remain. [Machine.Remove] removes them,
// except for the logs.
//
// # Usage
//
//	func main() {
//		machine.Main() // a machine's process 1 is this program
//		m, err := machine.Start(ctx, machine.Config{Name: "m1", Dir: dir, Logs: logs, Cgroup: "m1"})
//		...
//		err = m.Run([]machine.Program{{Name: "sshd", Args: []string{"/usr/sbin/sshd", "-D"}}})
//		...
//		err = m.Command(ctx, "ps").Run() // on the machine
//		err = m.Remove()
//	}
//
// It needs root and Linux. Control groups may be of version 1 or 2. In version 2, process 1 and the
// programs are in the group "init", below the machine's group. So programs can make other groups
// beside "init", with the host's controllers. For this, the controllers are enabled at the root of
// the host's hierarchy. They stay enabled there.
//
// # Concurrency
//
// Several goroutines and programs may use the same machine: [Open] returns a machine that another
// program started.
//
// # Errors
//
// Each error names the machine. Open returns [fs.ErrNotExist] for a machine that does not run. A
// program that cannot be started is no error of Run: the machine tries again each second, and its
// log init.log has the reason.
package machine
