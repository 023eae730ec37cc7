"""A headless Chromium that is driven by its DevTools protocol, over two pipes."""

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

PROGRAM = shutil.which("chromium")
PATIENCE_SECONDS = 60


class Browser:
    """with Browser() as browser: browser.load(...); what pages complain of is in `messages`, what
    they ask for in `requests`."""

    def __enter__(self):
        self.messages, self.requests = [], []
        self.number, self.buffer = 0, b""
        self.profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        commands, self.commands = os.pipe()
        self.answers, answers = os.pipe()

        def as_three_and_four():
            high = [os.dup2(descriptor, number) for descriptor, number in
                    ((commands, 103), (answers, 104))]
            for descriptor, number in zip(high, (3, 4)):
                os.dup2(descriptor, number)

        self.process = subprocess.Popen(
            [PROGRAM, "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run",
             "--disable-dev-shm-usage", "--disable-background-networking",
             "--remote-debugging-pipe", f"--user-data-dir={self.profile.name}", "about:blank"],
            preexec_fn=as_three_and_four, close_fds=False, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(commands)
        os.close(answers)
        self.session = None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target,
                                 flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        os.close(self.commands)
        os.close(self.answers)
        self.profile.cleanup()

    def receive(self):
        while b"\0" not in self.buffer:
            ready, _, _ = select.select([self.answers], [], [], PATIENCE_SECONDS)
            data = os.read(self.answers, 1 << 20) if ready else b""
            if not data:
                raise TimeoutError("the browser says nothing")
            self.buffer += data
        message, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(message)

    def call(self, method, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.commands, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.receive()
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
            self.note(answer)

    def note(self, event):
        method, parameters = event.get("method"), event.get("params")
        if method in ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded"):
            self.messages.append(json.dumps(parameters)[:500])
        if method == "Network.requestWillBeSent":
            self.requests.append(parameters["request"]["url"])

    def evaluate(self, expression):
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        if "exceptionDetails" in result:
            raise RuntimeError(str(result["exceptionDetails"])[:500])
        return result["result"].get("value")

    def load(self, path, width=1200, height=900, dark=False):
        """Loads the file and waits until its script has run; how long that took."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=1, mobile=width < 600)
        self.call("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        began = time.monotonic()
        self.call("Page.navigate", url=f"file://{path}")
        while self.evaluate("document.documentElement?.dataset.ready") != "yes":
            if time.monotonic() - began > PATIENCE_SECONDS:
                raise TimeoutError(f"{path} is not ready: {self.messages}")
            time.sleep(0.02)
        return time.monotonic() - began

    def press(self, key, shift=False):
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key,
                      windowsVirtualKeyCode={"Tab": 9, "Enter": 13, "ArrowRight": 39}.get(key, 0),
                      modifiers=8 if shift else 0)

    def picture(self, path):
        """A screenshot of the whole page."""
        width, height = self.evaluate("[innerWidth, document.documentElement.scrollHeight]")
        data = self.call("Page.captureScreenshot", captureBeyondViewport=True,
                         clip={"x": 0, "y": 0, "width": width, "height": height, "scale": 1})
        with open(path, "wb") as file:
            file.write(base64.b64decode(data["data"]))
