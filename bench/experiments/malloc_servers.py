"""Servers under load, with an allocator preloaded: redis, nginx, postgres."""

import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time

from .malloc_running import run
from .running import RunFailed, clean_environment


def as_user(user):
    """A command that becomes the user's, in the same process: signals reach what follows."""
    return ["setpriv", f"--reuid={user}", f"--regid={user}", "--init-groups", "--"]


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def peak_rss_of_tree(pid):
    """The largest peak of a process and its descendants, KiB; 0 if it is gone."""
    total = 0
    try:
        with open(f"/proc/{pid}/status") as file:
            total = int(re.search(r"VmHWM:\s+(\d+)", file.read())[1])
        with open(f"/proc/{pid}/task/{pid}/children") as file:
            for child in file.read().split():
                total = max(total, peak_rss_of_tree(int(child)))
    except (OSError, TypeError):
        pass
    return total


class Server:
    """A server that is stopped at the end, with an allocator preloaded."""

    def __init__(self, argv, allocator, port, user=None):
        self.log = tempfile.TemporaryFile()
        if user:
            argv, allocator = [*as_user(user), "env", *allocator, *argv], ()
        environment = clean_environment(**dict(pair.split("=", 1) for pair in allocator))
        self.process = subprocess.Popen(argv, env=environment, stdout=self.log,
                                        stderr=self.log, stdin=subprocess.DEVNULL)
        self.port = port

    def __enter__(self):
        for _ in range(200):
            if self.process.poll() is not None:
                break
            with socket.socket() as client:
                if client.connect_ex(("127.0.0.1", self.port)) == 0:
                    return self
            time.sleep(0.05)
        self.__exit__()
        self.log.seek(0)
        raise RunFailed(f"the server did not start: {self.log.read().decode()[-500:]}")

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def peak_rss_kb(self):
        return peak_rss_of_tree(self.process.pid)

    def check_ended_well(self, *allowed):
        if self.process.returncode not in (0, *allowed):
            raise RunFailed(f"the server ended with {self.process.returncode}")


def measure_redis(options):
    requests = "2000" if options.smoke else "100000"

    def measure(allocator):
        port = free_port()
        with Server(["redis-server", "--port", str(port), "--save", "", "--appendonly", "no"],
                    allocator, port) as server:
            client = ["redis-cli", "-p", str(port)]
            result = run(["redis-benchmark", "-p", str(port), "-q", "-n", requests, "-c", "20", "-P",
                          "8", "-r", "50000", "-d", "100", "-t",
                          "set,get,incr,lpush,lpop,sadd,hset,zadd"])
            run([*client, "set", "key", "x" * 1000])
            if run([*client, "strlen", "key"]).output.strip() != "1000":
                raise RunFailed("redis has lost a value")
            rss = server.peak_rss_kb()
        server.check_ended_well()
        return result.seconds, rss

    return measure


def measure_nginx(options, inputs):
    def measure(allocator):
        port = free_port()
        folder = tempfile.mkdtemp(dir=options.scratch)
        page = "".join(f"<p>paragraph {i}</p>\n" for i in range(300))
        with open(os.path.join(folder, "index.html"), "w") as file:
            file.write(page)
        configuration = os.path.join(folder, "nginx.conf")
        with open(configuration, "w") as file:
            file.write(f"""
daemon off; pid {folder}/pid; error_log {folder}/error.log; worker_processes 1;
{'user root;' if os.geteuid() == 0 else ''}
events {{ worker_connections 256; }}
http {{
  access_log off; client_body_temp_path {folder}/1; proxy_temp_path {folder}/2;
  fastcgi_temp_path {folder}/3; uwsgi_temp_path {folder}/4; scgi_temp_path {folder}/5;
  server {{ listen 127.0.0.1:{port}; root {folder}; gzip on; gzip_min_length 100; }}
}}
""")
        seconds = "1" if options.smoke else "3"
        with Server(["nginx", "-p", folder, "-c", configuration], allocator, port) as server:
            url = f"http://127.0.0.1:{port}/index.html"
            result = run(["wrk", "-t", "1", "-c", "32", "-d", f"{seconds}s", "-H",
                          "Accept-Encoding: gzip", url])
            got = run(["/usr/bin/python3", "-c",
                       f"import urllib.request as u; print(u.urlopen('{url}').read().decode())"])
            rss = server.peak_rss_kb()
        server.check_ended_well()
        if got.output.strip() != page.strip():
            raise RunFailed("nginx served another page")
        if "Non-2xx" in result.output or "Socket errors" in result.output:
            raise RunFailed(result.output)
        return float(re.search(r"Requests/sec:\s+([\d.]+)", result.output)[1]), rss

    return measure


def measure_postgres(options):
    binaries = sorted(os.path.join("/usr/lib/postgresql", version, "bin")
                      for version in os.listdir("/usr/lib/postgresql"))[-1]
    user = "postgres" if os.geteuid() == 0 else None
    become = as_user(user) if user else []
    folder = tempfile.mkdtemp(dir=options.scratch)
    os.chmod(options.scratch, 0o711)
    if user:
        shutil.chown(folder, user)
    data = os.path.join(folder, "data")
    run([*become, os.path.join(binaries, "initdb"), "-D", data, "--no-sync", "-A", "trust"])

    def measure(allocator):
        port = free_port()
        to_server = ["-h", "127.0.0.1", "-p", str(port)]
        bench = [*become, os.path.join(binaries, "pgbench"), *to_server]
        seconds = "1" if options.smoke else "4"
        with Server([os.path.join(binaries, "postgres"), "-D", data, "-p", str(port), "-k", folder,
                     "-c", "fsync=off"], allocator, port, user) as server:
            run([*bench, "-i", "-q", "-s", "2", "postgres"])
            result = run([*bench, "-n", "-S", "-c", "2", "-j", "1", "-T", seconds, "postgres"])
            count = run([*become, os.path.join(binaries, "psql"), *to_server, "-Atc",
                         "select count(*), sum(length(filler)) from pgbench_accounts", "postgres"])
            rss = server.peak_rss_kb()
        server.check_ended_well()
        tps = float(re.search(r"tps = ([\d.]+)", result.output)[1])
        return tps, rss, count.output.strip()

    return measure
