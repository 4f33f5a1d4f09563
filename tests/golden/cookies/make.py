"""Cookie headers of aiohttp's default jar. Regenerate with aiohttp 3.14.5: python make.py > jar.json"""
import asyncio, json, sys
import aiohttp
from yarl import URL
from aiohttp.client_reqrep import ClientRequest

CASES = [
    # host of the server, [(path of the response, [Set-Cookie...])], request path, Cookie header of the user, tls
    ("localhost", [("/v1/completions", ["a=1"])], "/v1/completions", None, False),
    ("127.0.0.1", [("/v1/completions", ["a=1"])], "/v1/completions", None, False),
    ("::1", [("/v1/completions", ["a=1"])], "/v1/completions", None, False),
    ("lb.example.com", [("/v1/completions", ["b=2; Path=/", "a=1; Path=/"])], "/v1/completions", None, False),
    ("lb.example.com", [("/v1/completions", ["a=1; Path=/metrics"])], "/v1/completions", None, False),
    ("lb.example.com", [("/v1/completions", ["a=1; Path=/v1"])], "/v1/completions", None, False),
    ("lb.example.com", [("/v1/completions", ["a=1; Path=/v1/"])], "/v1/completions", None, False),
    ("lb.example.com", [("/v1/completions", ["a=1; Path=/v"])], "/v1/completions", None, False),
    ("lb.example.com", [("/v1/chat/completions", ["a=1"])], "/v1/completions", None, False),
    ("lb.example.com", [("/v1/completions", ["a=1; Path=x"])], "/v1/models", None, False),
    ("lb.example.com", [("/v1/completions", ["a=1; Domain=example.com"])], "/v1/completions", None, False),
    ("lb.example.com", [("/v1/completions", ["a=1; domain=.example.com"])], "/v1/completions", None, False),
    ("lb.example.com", [("/v1/completions", ["a=1; Domain=other.com"])], "/v1/completions", None, False),
    ("lb.example.com", [("/v1/completions", ["a=1; Domain=ple.com"])], "/v1/completions", None, False),
    ("lb.example.com", [("/v1/completions", ["a=1; Domain=example.com."])], "/v1/completions", None, False),
    ("lb.example.com", [("/v1/completions", ["a=1; Secure"])], "/v1/completions", None, False),
    ("lb.example.com", [("/v1/completions", ["a=1; Secure; HttpOnly; SameSite=Lax"])], "/v1/completions", None, True),
    ("lb.example.com", [("/v1/completions", ["a=1; Max-Age=100"])], "/v1/completions", None, False),
    ("lb.example.com", [("/v1/completions", ["a=1; Max-Age=0"])], "/v1/completions", None, False),
    ("lb.example.com", [("/v1/completions", ["a=1; Max-Age=x"])], "/v1/completions", None, False),
    ("lb.example.com", [("/v1/completions", ["a=1; Expires=Thu, 01 Jan 1970 00:00:00 GMT"])], "/v1/completions", None, False),
    ("lb.example.com", [("/v1/completions", ["a=1; Expires=Fri, 31 Dec 2199 23:59:59 GMT"])], "/v1/completions", None, False),
    ("lb.example.com", [("/v1/completions", ["a=1; Expires=Friday, 31-Dec-99 23:59:59 GMT"])], "/v1/completions", None, False),
    ("lb.example.com", [("/v1/completions", ["a=1; Expires=never"])], "/v1/completions", None, False),
    ("lb.example.com", [("/v1/completions", ["a=1; Max-Age=100; Expires=Thu, 01 Jan 1970 00:00:00 GMT"])], "/v1/completions", None, False),
    ("lb.example.com", [("/v1/completions", ["a=1"]), ("/v1/completions", ["a=2"])], "/v1/completions", None, False),
    ("lb.example.com", [("/v1/completions", ["a=1"]), ("/v1/completions", ["a=; Max-Age=0"])], "/v1/completions", None, False),
    ("lb.example.com", [("/v1/completions", ["a=1; Path=/", "a=2; Path=/v1"])], "/v1/completions", None, False),
    ("lb.example.com", [("/v1/completions", ["a=1; Path=/", "a=2; Domain=example.com; Path=/v1"])], "/v1/completions", None, False),
    ("lb.example.com", [("/v1/completions", ["a=x/y+z=="])], "/v1/completions", None, False),
    ("lb.example.com", [("/v1/completions", ['a="x y"'])], "/v1/completions", None, False),
    ("lb.example.com", [("/v1/completions", ["a=x y,z"])], "/v1/completions", None, False),
    ("lb.example.com", [("/v1/completions", ["a={\\q}"])], "/v1/completions", None, False),
    ("lb.example.com", [("/v1/completions", ["a=", "=b", "c", "d e=1"])], "/v1/completions", None, False),
    ("lb.example.com", [("/v1/completions", ["route=a.1|b:2"])], "/v1/completions", None, False),
    ("lb.example.com", [("/v1/completions", ["a=1"])], "/v1/completions", "z=9; a=8", False),
    ("lb.example.com", [("/v1/completions", ["a=1"])], "/v1/completions", "u=x/y=", False),
    ("LB.example.com", [("/v1/completions", ["a=1; Domain=EXAMPLE.com"])], "/v1/completions", None, False),
    ("lb.example.com", [("/v1/completions", ["a = 1 ; Path = /"])], "/v1/completions", None, False),
]

async def main():
    out = []
    for host, responses, path, user, tls in CASES:
        jar = aiohttp.CookieJar()
        scheme = "https" if tls else "http"
        shown = f"[{host}]" if ":" in host else host
        url = lambda path: URL(f"{scheme}://{shown}:8000{path}")
        for place, headers in responses:
            jar.update_cookies_from_headers(headers, url(place))
        cookies = jar.filter_cookies(url(path))
        headers = {"Cookie": user} if user else {}
        async with aiohttp.ClientSession() as session:
            request = ClientRequest("POST", url(path), headers=headers, cookies=cookies, loop=asyncio.get_running_loop(), session=session)
        out.append({"url": str(url(path)), "responses": [[str(url(place)), headers] for place, headers in responses],
                    "user": user, "cookie": request.headers.get("Cookie")})
    json.dump({"made_by": f"aiohttp {aiohttp.__version__}", "cases": out}, sys.stdout, indent=1)

asyncio.run(main())
